import { Link } from '@tanstack/react-router'
import { useId, useLayoutEffect, useRef, useState } from 'react'
import type { ApiError } from '../api/errors.ts'
import { usePreview } from '../api/preview.ts'
import { useRules } from '../api/rules.ts'
import { useConnectFirst, useSummary } from '../api/summary.ts'
import { useSendTest } from '../api/test-message.ts'
import { Button } from '../ui/Button.tsx'
import { AccountMenu } from './AccountMenu.tsx'
import { PageNotice } from './PageNotice.tsx'
import { SendAllAgain } from './SendAllAgain.tsx'
import { StandInLink } from './StandIn.tsx'

// What the dashboard shows beyond §7. It is a script of its own, which only a backend with one of these
// features makes the dashboard load (components/use-insights.ts).
export { AccountMenu, PageNotice, StandInLink }

/** Below a rule: what it has sent, or what it would have sent. The element with `id` describes the rule. */
export function RuleNote(props: { id: string; rule: string; when: string }) {
  const isSaved = useRules().data?.rules.includes(props.rule) === true
  return isSaved ? <Sent {...props} /> : <WouldSend {...props} />
}

function Sent({ id, rule, when }: { id: string; rule: string; when: string }) {
  const summary = useSummary()
  if (summary.data === undefined) {
    return (
      <Missing
        id={id}
        query={summary}
        pending="Counting…"
        failed="The number of sent messages could not be loaded."
        subject={when}
        focusAfter={`[aria-describedby="${id}"]`}
      />
    )
  }
  const none = { sent: 0, failed: 0, lastSentAt: null }
  const { sent, failed, lastSentAt } = summary.data.rules[rule] ?? none
  const period = `in ${count(summary.data.days, 'day')}`
  return (
    <p id={id}>
      {sent === 0
        ? `No messages sent ${period}`
        : `Sent ${sent === 1 ? 'once' : `${written(sent)} times`} ${period}`}
      {sent > 0 && lastSentAt !== null && (
        <>
          {sent === 1 ? ', ' : ', last '}
          {/* Each refetch renders this again, so the time stays correct. */}
          <TimeAgo at={lastSentAt} now={Math.max(summary.dataUpdatedAt, summary.errorUpdatedAt)} />
        </>
      )}
      {failed > 0 && ` · ${written(failed)} failed`}
    </p>
  )
}

function WouldSend({ id, rule, when }: { id: string; rule: string; when: string }) {
  const preview = usePreview()
  const [isOpen, setIsOpen] = useState(false)
  const { data } = preview
  if (data === undefined) {
    return (
      <Missing
        id={id}
        query={preview}
        pending="Looking at the last 7 days…"
        failed="The preview of this rule could not be loaded."
        subject={when}
        focusAfter={`[aria-describedby="${id}"]`}
      />
    )
  }
  const messages = data.rules[rule]
  // The backend may not know this rule, or may not have counted anything yet.
  if (messages === undefined) {
    const isCounting = !data.complete && Object.keys(data.rules).length === 0
    return isCounting ? <p id={id}>Looking at the last 7 days…</p> : null
  }
  const sample = data.samples[rule]
  const sampleId = `${id}-sample`
  return (
    <>
      <p className="inline" id={id}>
        Would have sent {messages > 0 && !data.complete && 'at least '}
        {messages === 0 ? 'no messages' : count(messages, 'message')} in the last{' '}
        {count(data.days, 'day')}
        {messages === 0 && !data.complete && ', as far as is known'}
      </p>
      {sample !== undefined && (
        <>
          {' '}
          <button
            type="button"
            aria-expanded={isOpen}
            aria-controls={isOpen ? sampleId : undefined}
            aria-label={`${isOpen ? 'Hide the' : 'Show an'} example: when ${when}`}
            onClick={() => setIsOpen(!isOpen)}
            className="text-button"
          >
            {/* An inline block, so that only the words are underlined. */}
            <span aria-hidden className="mr-1 inline-block">
              {isOpen ? '▾' : '▸'}
            </span>
            {isOpen ? 'Hide the' : 'Show an'} example
          </button>
          {isOpen && (
            <p id={sampleId} className="message">
              {sample}
            </p>
          )}
        </>
      )}
    </>
  )
}

/** Sends a test message to the chat, and says what became of it. */
export function TestMessage() {
  const test = useSendTest()
  const button = useRef<HTMLButtonElement>(null)
  // A refusal may break the connection, and then this part disappears. The service's button gets the focus.
  useLayoutEffect(() => {
    const own = button.current
    return () => {
      if (own !== null && document.activeElement === own) {
        own.closest('li')?.querySelector('button')?.focus()
      }
    }
  }, [])
  return (
    <>
      <Button ref={button} busy={test.isPending} onClick={() => test.mutate()}>
        Send a test message
      </Button>
      <p role="status" className="min-w-40 flex-1 wrap-anywhere not-empty:py-2">
        {test.isPending
          ? 'Sending…'
          : test.error
            ? failureOf(test.error)
            : test.data && resultOf(test.data)}
      </p>
    </>
  )
}

function resultOf({
  state,
  channel,
  reason,
  nextTryAt,
}: NonNullable<ReturnType<typeof useSendTest>['data']>): string {
  if (state === 'sent') return channel === null ? 'Sent.' : `Sent to ${channel}.`
  const parts = [
    reason,
    nextTryAt !== null &&
      `next try at ${new Date(nextTryAt).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })}`,
  ].filter(Boolean)
  return parts.length === 0 ? 'Waiting.' : `Waiting: ${parts.join(', ')}.`
}

function failureOf({ kind, message }: ApiError): string {
  // Without an answer, nobody knows whether the server has sent it.
  return kind === 'status' ? message : `${message}. The test message may still arrive.`
}

/** Beside a connection that no longer works: the messages that it holds up. */
export function UnsentMessages({ provider }: { provider: string }) {
  const id = useId()
  const summary = useSummary()
  if (summary.data === undefined) {
    return (
      <Missing
        id={id}
        query={summary}
        pending="Counting the messages…"
        failed="The number of waiting messages could not be loaded."
        subject={provider}
        focusAfter={`li:has(#${id}) button`}
      />
    )
  }
  const { waiting, failedSinceBroken } = summary.data
  const failed = failedSinceBroken ?? 0
  return (
    <p id={id}>
      {waiting > 0 && `${count(waiting, 'message')} ${waiting === 1 ? 'is' : 'are'} waiting`}
      {waiting > 0 && failed > 0 && '. '}
      {failed > 0 && (
        <>
          {waiting > 0 ? written(failed) : count(failed, 'message')} {failed === 1 ? 'has' : 'have'}{' '}
          failed since.{' '}
          <Link to="/activity" search={{ state: 'failed' }} className="text-link">
            {failed === 1 ? 'See the failed one' : 'See the failed ones'}
          </Link>
        </>
      )}
      {waiting > 0 && failed === 0 && '.'}
      {waiting === 0 &&
        failed === 0 &&
        (failedSinceBroken === null
          ? 'No message is waiting.'
          : 'No messages are waiting or have failed since.')}
    </p>
  )
}

/** Below the connections, if both work: what failed while one of them did not. */
export function FailedMessages() {
  return useConnectFirst() === undefined && <SendAllAgain />
}

/** The states of a query without data. The element with `id` says the state. */
function Missing({
  id,
  query,
  pending,
  failed,
  subject,
  focusAfter,
}: {
  id: string
  query: { isFetched: boolean; isFetching: boolean; refetch: () => unknown }
  pending: string
  failed: string
  /** Tells the buttons of several such parts apart. */
  subject: string
  /** Selects what gets the focus when a new try succeeds, because the button disappears. */
  focusAfter: string
}) {
  const button = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => {
    return () => {
      const hadFocus = button.current !== null && document.activeElement === button.current
      if (hadFocus) document.querySelector<HTMLElement>(focusAfter)?.focus()
    }
  }, [focusAfter])
  return (
    <>
      {/* Do not use isPending: after a failure, it is true again at each new attempt. */}
      <p id={id} className="inline">
        {query.isFetched ? failed : pending}
      </p>{' '}
      {query.isFetched && (
        <button
          ref={button}
          type="button"
          aria-label={`Try again: ${subject}`}
          aria-disabled={query.isFetching || undefined}
          onClick={() => query.refetch()}
          className="text-button"
        >
          Try again
        </button>
      )}
    </>
  )
}

function TimeAgo({ at, now }: { at: string; now: number }) {
  const seconds = (now - Date.parse(at)) / 1000
  const units = [
    ['day', 86_400],
    ['hour', 3600],
    ['minute', 60],
  ] as const
  const unit = units.find(([, length]) => seconds >= length)
  const text = unit ? `${count(Math.floor(seconds / unit[1]), unit[0])} ago` : 'a moment ago'
  return <time dateTime={at}>{text}</time>
}

const written = (number: number) => number.toLocaleString('en')

/** A number with its noun, such as '1 message' or '1,200 messages'. */
const count = (number: number, noun: string) =>
  `${written(number)} ${noun}${number === 1 ? '' : 's'}`
