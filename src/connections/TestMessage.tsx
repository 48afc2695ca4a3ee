import type { ReactNode } from 'react'
import { useIsConnected } from '../api/connections.ts'
import type { ApiError } from '../api/errors.ts'
import { useHasFeature } from '../api/health.ts'
import { useHasWaited } from '../api/summary.ts'
import { useSendTest } from '../api/test-message.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'
import { clockTime } from '../ui/dates.ts'
import { passFocus } from '../ui/focus.ts'
import { SentTo } from '../ui/foreign-names.tsx'
import { ended } from '../ui/words.ts'

// A refusal may break the connection, and then this part disappears.
const passToService = passFocus((own) => own.closest('li')?.querySelector('button'))

/** Sends a test message to the connected chat, and says what became of it. */
export function TestMessage() {
  const isOffered = useHasFeature('test-message')
  const isCrmConnected = useIsConnected(config.crm)
  const test = useSendTest()
  const isOver = useHasWaited(test.data?.state === 'waiting')
  if (!isOffered || !isCrmConnected) return null
  return (
    <>
      <Button ref={passToService} busy={test.isPending} onClick={() => test.mutate()}>
        Send a test message
      </Button>
      <p role="status" className="min-w-[min(10rem,100%)] flex-1 wrap-anywhere not-empty:py-2">
        {test.isPending
          ? 'Sending…'
          : test.error
            ? failureOf(test.error)
            : test.data && !isOver && resultOf(test.data)}
      </p>
    </>
  )
}

function resultOf({
  state,
  channel,
  reason,
  nextTryAt,
}: NonNullable<ReturnType<typeof useSendTest>['data']>): ReactNode {
  if (state === 'sent') {
    return (
      <>
        <SentTo channel={channel} />
        <span>{reason === null ? '.' : `. ${ended(reason)}`}</span>
      </>
    )
  }
  const parts = [reason, nextTryAt !== null && `next try at ${clockTime(nextTryAt)}`].filter(
    Boolean,
  )
  return parts.length === 0 ? 'Waiting.' : `Waiting: ${parts.join(', ')}.`
}

function failureOf({ kind, message }: ApiError): string {
  // Without an answer, nobody knows whether the server has sent it.
  return kind === 'status' ? message : `${message}. The test message may still arrive.`
}
