import type { Activity } from '../../contract/features/activity.ts'
import { authorizeUrl } from '../api/connections.ts'
import { useHasFeature } from '../api/health.ts'
import { type RetriedMessages, useRetryAll } from '../api/retry.ts'
import { useConnectFirst, useHasWaited, useSummary } from '../api/summary.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'
import { passToBox } from '../ui/focus.ts'
import { count, ended } from '../ui/words.ts'
import { useFilter } from './activity-filter.ts'

/** Sends what failed while a connection was broken again, with one button. Nothing if there is no such message. */
export function SendAllAgain({
  hasFailed = false,
}: {
  /** Whether there are failed messages to offer the button for, whatever was the reason. */
  hasFailed?: boolean | undefined
}) {
  const broken = useSummary().data?.failedWhileBroken
  const failed = broken?.count ?? 0
  const names = [config.crm, config.chat]
    .filter(({ id }) => broken?.providers.includes(id))
    .map(({ name }) => name)
  const service = `${names.join(' or ') || 'a service'} ${names.length > 1 ? 'were' : 'was'}`
  return (
    <SendAgain
      messages={failed > 0 ? { because: 'broken' } : {}}
      isNeeded={failed > 0 || hasFailed}
    >
      {failed > 0 && `${counted(broken, 'message')} failed while ${service} disconnected.`}
    </SendAgain>
  )
}

/** Below the connections, if both work: what failed while one of them did not. */
export function FailedMessages() {
  return useConnectFirst() === null && <SendAllAgain />
}

/** Sends the failed messages of a filter again, with one button. */
export function SendFoundAgain({
  found,
}: {
  /** How many there are; undefined while this is not known. */
  found: Activity['retryable']
}) {
  const { q, rule, day } = useFilter()
  const failed = found?.count ?? 0
  return (
    <SendAgain messages={{ q, rule, day }} isNeeded={failed > 0}>
      {failed > 0 && `${counted(found, 'failed message')} ${failed === 1 ? 'matches' : 'match'}.`}
    </SendAgain>
  )
}

const counted = (found: Activity['retryable'] | null, noun: string) =>
  `${found?.more ? 'At least ' : ''}${count(found?.count ?? 0, noun)}`

function SendAgain({
  messages,
  isNeeded,
  children,
}: {
  messages: RetriedMessages
  isNeeded: boolean
  /** Says which messages the button sends. */
  children: string | false
}) {
  const retry = useRetryAll()
  const connectFirst = useConnectFirst()
  const isOver = useHasWaited((retry.data?.queued ?? 0) > 0)
  if (!useHasFeature('retry-all') || (!isNeeded && retry.isIdle)) return null
  // Before the summary is there, it is not known which messages the button would send.
  const isKnown = connectFirst !== undefined
  return (
    <div
      tabIndex={-1}
      className={`flex w-full flex-wrap content-start items-center gap-x-3 gap-y-2 text-sm outline-none ${isNeeded ? 'max-sm:min-h-21 max-sm:pointer-coarse:min-h-23' : ''}`}
    >
      {isNeeded &&
        (connectFirst ? (
          // Without this provider, no message can be sent.
          <Button onClick={() => window.location.assign(authorizeUrl(connectFirst))}>
            {`Connect ${connectFirst.name}`}
          </Button>
        ) : (
          <Button
            key="send"
            ref={passToBox}
            busy={retry.isPending || !isKnown}
            // The second click of a double click may come after the answer.
            onClick={({ detail }) => detail < 2 && retry.mutate(messages)}
          >
            {retry.isPending ? 'Sending…' : 'Send all again'}
          </Button>
        ))}
      {/* After the button, because it may come later, and on a phone below it. */}
      {children && <p className="min-w-0 wrap-anywhere">{children}</p>}
      <p role="status" className="min-w-0 wrap-anywhere">
        {retry.error
          ? `❌ Failed to send them again. ${ended(retry.error.message)}`
          : retry.data && !retry.isPending && !isOver && resultOf(retry.data)}
      </p>
    </div>
  )
}

function resultOf({ queued, more }: { queued: number; more: boolean }): string {
  if (queued === 0) return 'No failed message is left.'
  const rest = more ? ' There may be older ones.' : ''
  return `${count(queued, 'message')} will be sent again.${rest}`
}
