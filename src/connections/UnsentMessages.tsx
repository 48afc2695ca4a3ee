import { Link } from '@tanstack/react-router'
import { useId } from 'react'
import { useSummary } from '../api/summary.ts'
import { LoadingNote } from '../ui/LoadingNote.tsx'
import { count, written } from '../ui/words.ts'

/** Beside a connection that no longer works: the messages that it holds up. */
export function UnsentMessages({ provider }: { provider: string }) {
  const id = useId()
  const summary = useSummary()
  if (summary.data === undefined) {
    return (
      <LoadingNote
        id={id}
        query={summary}
        pending="Counting the messages…"
        failed="The number of waiting messages could not be loaded."
        subject={provider}
      />
    )
  }
  const { waiting, failedWhileBroken } = summary.data
  const failed = failedWhileBroken?.count ?? 0
  const held =
    waiting > 0 ? `${count(waiting, 'message')} ${waiting === 1 ? 'is' : 'are'} waiting. ` : ''
  const atLeast = failedWhileBroken?.more ? 'At least ' : ''
  const others = waiting > 0 ? written(failed) : count(failed, 'message')
  const lost = failed > 0 ? `${atLeast}${others} failed while disconnected. ` : ''
  return (
    <p id={id}>
      <span>{held + lost || 'No message is waiting.'}</span>
      {failed > 0 && (
        <Link to="/activity" search={{ state: 'failed' }} className="text-link">
          {failed === 1 ? 'See the failed one' : 'See the failed ones'}
        </Link>
      )}
    </p>
  )
}
