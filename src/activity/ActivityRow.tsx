import { memo, type ReactNode, useState } from 'react'
import type { ActivityItem, ActivityState } from '../../contract/features/activity.ts'
import { authorizeUrl } from '../api/connections.ts'
import { useRetry } from '../api/retry.ts'
import { useConnectFirst } from '../api/summary.ts'
import { Button } from '../ui/Button.tsx'
import { clockTime } from '../ui/dates.ts'
import { passToBox } from '../ui/focus.ts'
import { Fact, SentTo } from '../ui/foreign-names.tsx'
import { Clock, Dash, GreenCheck, RedCross } from '../ui/icons.tsx'
import { ended } from '../ui/words.ts'
import { nameOf, ruleInWords, sentenceOf } from './activity-words.ts'

/** One message: what it is about, and what became of it. Memoized, so a refresh renders what changed. */
export const ActivityRow = memo(function ActivityRow({ item }: { item: ActivityItem }) {
  const { at, state, rule, deal, from, to, channel, tries } = item
  const name = nameOf(item)
  // From then on, a screen reader announces what becomes of the message.
  const [isSentAgain, setSentAgain] = useState(false)
  const isSent = state === 'sent'

  return (
    // It takes the focus when the button 'Send again' disappears.
    <li tabIndex={-1} className="flex gap-2 py-2 text-sm sm:gap-3">
      <span className="grid size-7 shrink-0 place-items-center rounded-full border border-line bg-canvas">
        {signs[state]}
      </span>
      <div className="grid min-w-0 flex-1 grid-cols-[1fr_auto] gap-x-3 gap-y-0.5 wrap-anywhere">
        <p>
          {deal !== null && webAddress.test(deal.url) ? (
            <a
              href={deal.url}
              target="_blank"
              rel="noopener noreferrer"
              className="-my-1 inline-block rounded-sm py-1 font-semibold underline decoration-edge underline-offset-3 hover:text-accent hover:decoration-current pointer-coarse:-my-3 pointer-coarse:py-3"
            >
              <bdi>{name}</bdi>
            </a>
          ) : (
            <bdi className="font-semibold">{name}</bdi>
          )}
          <Change from={from} to={to} />
        </p>
        <time dateTime={at} className="text-right text-muted tabular-nums">
          {clockTime(at)}
        </time>
        <div className={state === 'failed' ? 'max-sm:col-span-2' : 'col-span-2'}>
          <p
            role={isSentAgain ? 'status' : undefined}
            className={`inline ${item.isOver ? stateStyles.skipped : stateStyles[state]}`}
          >
            {isSent && <SentTo channel={channel} />}
            <span>{sentenceOf(item)}</span>
          </p>
          <p className="inline text-muted">
            <Fact>{rule && ruleInWords(rule)}</Fact>
            <Fact>{!isSent && channel && <bdi>{channel}</bdi>}</Fact>
            <Fact>{tries > 1 && `tried ${tries} times`}</Fact>
          </p>
        </div>
        {state === 'failed' && <SendAgain item={item} onSend={() => setSentAgain(true)} />}
      </div>
    </li>
  )
})

function SendAgain({ item, onSend }: { item: ActivityItem; onSend: () => void }) {
  const connectFirst = useConnectFirst()
  const retry = useRetry(item)
  const action = connectFirst ? `Connect ${connectFirst.name}` : 'Send again'
  const name = item.deal?.name === null ? `${nameOf(item)}, ${clockTime(item.at)}` : nameOf(item)
  return (
    <>
      {/* One button for both actions, so that it keeps the focus when its text changes. */}
      <div className="self-center max-sm:col-span-2">
        <Button
          ref={passToBox}
          // Until it is known what a click does, it does nothing.
          busy={retry.isPending || connectFirst === undefined}
          label={`${action}${connectFirst ? ', to send again' : ''}: ${name}`}
          onClick={() => {
            if (connectFirst) window.location.assign(authorizeUrl(connectFirst))
            else {
              onSend()
              retry.mutate()
            }
          }}
        >
          {retry.isPending ? 'Sending…' : action}
        </Button>
      </div>
      <p role="status" className="col-span-2">
        {retry.error && `❌ Failed to send it again. ${ended(retry.error.message)}`}
      </p>
    </>
  )
}

function Change({ from, to }: { from: string | null; to: string | null }) {
  if (to === null) return null
  return (
    <span>
      <span> </span>
      <bdi>{from}</bdi>
      <span> </span>
      {/* Screen readers read 'to', not 'right arrow'. */}
      <span role="img" aria-label="to" className="text-muted">
        →
      </span>
      <span> </span>
      <bdi>{to}</bdi>
    </span>
  )
}

/** Only such an address becomes a link. One with `javascript:` would run in the page. */
const webAddress = /^https?:\/\//i

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
