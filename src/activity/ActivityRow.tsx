import { memo, type ReactNode, useState } from 'react'
import type { ActivityItem, ActivityState } from '../../contract/features/activity.ts'
import { useRetry } from '../api/activity.ts'
import { authorizeUrl } from '../api/connections.ts'
import type { Provider } from '../parse-config.ts'
import { Button } from '../ui/Button.tsx'
import { passToBox } from '../ui/focus.ts'
import { Clock, Dash, GreenCheck, RedCross } from '../ui/icons.tsx'
import { clockTime } from '../ui/words.ts'
import { ended, nameOf, ruleInWords, sentenceOf } from './activity-words.ts'

/** One message: what it is about, and what became of it. Memoized, so a refresh renders what changed. */
export const ActivityRow = memo(function ActivityRow({
  item,
  connectFirst,
}: {
  item: ActivityItem
  /** The provider without which no message can be sent. */
  connectFirst: Provider | undefined
}) {
  const { at, state, rule, deal, from, to, channel, tries } = item
  const name = nameOf(item)
  // From then on, a screen reader announces what becomes of the message.
  const [isSentAgain, setSentAgain] = useState(false)
  const isTold = state === 'sent' && channel !== null
  const facts = [
    rule && ruleInWords(rule),
    isTold ? null : channel,
    tries > 1 && `tried ${tries} times`,
  ]
    .filter(Boolean)
    .map((fact) => ` · ${fact}`)
    .join('')

  return (
    // It takes the focus when the button 'Send again' disappears.
    <li
      tabIndex={-1}
      className="flex gap-2 py-2 text-sm sm:gap-3 lg:items-center lg:pointer-fine:py-1"
    >
      <span className="grid size-7 shrink-0 place-items-center rounded-full border border-line bg-canvas">
        {signs[state]}
      </span>
      {/* Two lines, and one on a wide screen. */}
      <div className="flex min-w-0 flex-1 flex-wrap items-baseline gap-x-3 gap-y-0.5 lg:items-center wrap-anywhere">
        <p className="min-w-0 flex-1 lg:flex-none lg:basis-[45%]">
          {deal !== null && isWebAddress(deal.url) ? (
            <a
              href={deal.url}
              target="_blank"
              rel="noopener noreferrer"
              className="-my-1 inline-block rounded-sm py-1 font-semibold underline decoration-edge underline-offset-3 hover:text-accent hover:decoration-current pointer-coarse:-my-3 pointer-coarse:py-3"
            >
              {name}
            </a>
          ) : (
            <span className="font-semibold">{name}</span>
          )}
          <Change from={from} to={to} />
        </p>
        <time dateTime={at} className="shrink-0 text-muted tabular-nums lg:order-1">
          {clockTime(at)}
        </time>
        <div className="min-w-0 flex-1 basis-full sm:basis-3/4 lg:basis-40">
          <p role={isSentAgain ? 'status' : undefined} className={`inline ${stateStyles[state]}`}>
            {sentenceOf(item)}
          </p>
          <p className="inline text-muted">{facts}</p>
        </div>
        {state === 'failed' && (
          <SendAgain item={item} connectFirst={connectFirst} onSend={() => setSentAgain(true)} />
        )}
      </div>
    </li>
  )
})

function SendAgain({
  item,
  connectFirst,
  onSend,
}: {
  item: ActivityItem
  connectFirst: Provider | undefined
  onSend: () => void
}) {
  const retry = useRetry(item)
  const action = connectFirst === undefined ? 'Send again' : `Connect ${connectFirst.name}`
  const name = item.deal?.name === null ? `${nameOf(item)}, ${clockTime(item.at)}` : nameOf(item)
  return (
    <>
      {/* One button for both actions, so that it keeps the focus when its text changes. */}
      <Button
        ref={passToBox}
        busy={retry.isPending}
        label={`${action}${connectFirst ? ', to send again' : ''}: ${name}`}
        onClick={() => {
          if (connectFirst !== undefined) window.location.assign(authorizeUrl(connectFirst))
          else {
            onSend()
            retry.mutate()
          }
        }}
      >
        {retry.isPending ? 'Sending…' : action}
      </Button>
      <p role="status" className="order-2 basis-full">
        {retry.error && `❌ Failed to send it again. ${ended(retry.error.message)}`}
      </p>
    </>
  )
}

function Change({ from, to }: { from: string | null; to: string | null }) {
  if (to === null) return null
  return (
    <span>
      <span>{` ${from ?? ''} `}</span>
      {/* Screen readers read 'to', not 'right arrow'. */}
      <span role="img" aria-label="to" className="text-muted">
        →
      </span>
      <span>{` ${to}`}</span>
    </span>
  )
}

/** Whether an address may become a link. One with `javascript:` would run in the page. */
function isWebAddress(address: string): boolean {
  try {
    return ['http:', 'https:'].includes(new URL(address).protocol)
  } catch {
    return false
  }
}

const signs: Record<ActivityState, ReactNode> = {
  sent: <GreenCheck />,
  failed: <RedCross />,
  waiting: <Clock />,
  skipped: <Dash />,
}

const stateStyles: Record<ActivityState, string> = {
  sent: 'font-semibold',
  waiting: 'font-semibold',
  failed: 'font-semibold text-bad',
  skipped: 'text-muted',
}
