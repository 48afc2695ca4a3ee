import { useState } from 'react'
import { useIsConnected } from '../api/connections.ts'
import { useStandInUrl } from '../api/health.ts'
import { isCounting, usePreview } from '../api/preview.ts'
import { useRules } from '../api/rules.ts'
import { serverTime } from '../api/server-time.ts'
import { useSummary } from '../api/summary.ts'
import { config } from '../config.ts'
import { buttonStyle } from '../ui/button-style.ts'
import { timeAgo } from '../ui/dates.ts'
import { LoadingNote } from '../ui/LoadingNote.tsx'
import { count, written } from '../ui/words.ts'

/** Below a rule: what it has sent, or what it would have sent. The element with `id` describes the rule. */
export function RuleNote(props: { id: string; rule: string; when: string }) {
  const isSaved = useRules().data?.rules.includes(props.rule) === true
  return isSaved ? <Sent {...props} /> : <WouldSend {...props} />
}

function Sent({ id, rule, when }: { id: string; rule: string; when: string }) {
  const summary = useSummary()
  const areConnected = [useIsConnected(config.crm), useIsConnected(config.chat)].every(Boolean)
  const standIn = useStandInUrl(config.crm)
  if (summary.data === undefined) {
    return (
      <LoadingNote
        id={id}
        query={summary}
        pending="Counting…"
        failed="The number of sent messages could not be loaded."
        subject={when}
      />
    )
  }
  const none = { sent: 0, failed: 0, lastSentAt: null }
  const { sent, failed, lastSentAt } = summary.data.rules[rule] ?? none
  if (sent === 0 && failed === 0) {
    return (
      <p id={id}>
        <span>No message yet.</span>
        {areConnected && (
          <>
            <span>{` The next change sends one${standIn ? ': ' : '.'}`}</span>
            {standIn && (
              <a
                href={standIn}
                target="_blank"
                rel="noopener"
                aria-label={`move a deal, for: when ${when}`}
                className="text-link relative z-1"
              >
                move a deal
              </a>
            )}
          </>
        )}
      </p>
    )
  }
  const period = `in ${count(summary.data.days, 'day')}`
  const times = sent === 1 ? 'once' : `${written(sent)} times`
  const isDated = sent > 0 && lastSentAt !== null
  const until = isDated ? (sent === 1 ? ', ' : ', last ') : ''
  return (
    <p id={id}>
      <span>{sent === 0 ? `No messages sent ${period}` : `Sent ${times} ${period}${until}`}</span>
      {isDated && (
        // Each refetch renders this again, so the time stays correct.
        <time dateTime={lastSentAt}>
          {timeAgo(lastSentAt, serverTime(Math.max(summary.dataUpdatedAt, summary.errorUpdatedAt)))}
        </time>
      )}
      {failed > 0 && <span>{` · ${written(failed)} failed`}</span>}
    </p>
  )
}

function WouldSend({ id, rule, when }: { id: string; rule: string; when: string }) {
  const preview = usePreview()
  const [isOpen, setIsOpen] = useState(false)
  const { data } = preview
  if (data === undefined) {
    return (
      <LoadingNote
        id={id}
        query={preview}
        pending="Looking at the last 7 days…"
        failed="The preview of this rule could not be loaded."
        subject={when}
      />
    )
  }
  const messages = data.rules[rule]
  // The backend may not know this rule.
  if (messages === undefined) {
    return isCounting(data) ? <p id={id}>Looking at the last 7 days…</p> : null
  }
  const sample = data.samples[rule]
  const sampleId = `${id}-sample`
  const atLeast = messages > 0 && !data.complete ? 'at least ' : ''
  const found = messages === 0 ? 'no messages' : count(messages, 'message')
  const unsure = messages === 0 && !data.complete ? ', as far as is known' : ''
  return (
    <>
      <p className="inline" id={id}>
        {`Would have sent ${atLeast}${found} in the last ${count(data.days, 'day')}${unsure} `}
      </p>
      {sample !== undefined && (
        <>
          <button
            type="button"
            aria-expanded={isOpen}
            aria-controls={isOpen ? sampleId : undefined}
            aria-label={`${isOpen ? 'Hide the' : 'Show an'} example: when ${when}`}
            onClick={() => setIsOpen(!isOpen)}
            className={buttonStyle.text}
          >
            {/* An inline block, so that only the words are underlined. */}
            <span aria-hidden className="mr-1 inline-block">
              {isOpen ? '▾' : '▸'}
            </span>
            <span>{isOpen ? 'Hide the example' : 'Show an example'}</span>
          </button>
          {isOpen && (
            <p
              id={sampleId}
              className="relative z-1 my-1 border-l-2 border-edge pl-3 text-ink wrap-anywhere"
            >
              {sample}
            </p>
          )}
        </>
      )}
    </>
  )
}
