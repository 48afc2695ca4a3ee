import type { UseQueryResult } from '@tanstack/react-query'
import { Button } from '../ui/Button.tsx'
import { passToBox } from '../ui/focus.ts'
import { WarningSign } from '../ui/icons.tsx'
import { useRefusal } from '../ui/use-refusal.ts'

/** Says that a load failed, and offers to try again. What is on the page stays there. */
export function ActivityFailure({
  what,
  room = '',
  query: { data, error, isFetched, isFetching, refetch },
}: {
  /** The subject of its sentence: 'The chart'. */
  what: string
  /** The class of the part's room. Without data, the words take it, so that nothing below moves. */
  room?: string
  query: Pick<UseQueryResult, 'data' | 'error' | 'isFetched' | 'isFetching' | 'refetch'>
}) {
  const refusal = useRefusal(error)
  const isMissing = data === undefined
  // Without data, Query forgets the error while it tries again.
  if (isMissing ? !isFetched : error === null) return null
  const title = `${what} could not be ${isMissing ? 'loaded' : 'refreshed'}`
  return (
    <div
      className={`flex flex-wrap items-center gap-2 rounded-xl border border-warning-line bg-warning p-3 text-on-warning sm:gap-3 sm:p-4 ${isMissing ? room : ''}`}
    >
      {/* On a phone, the words need its room. */}
      <span className="max-sm:hidden">
        <WarningSign />
      </span>
      <div role="alert" className="min-w-0 flex-1 basis-40 wrap-anywhere">
        <p className="font-semibold">{title}</p>
        {refusal && <p>{refusal}</p>}
      </div>
      <Button
        ref={passToBox}
        busy={isFetching}
        label={`Try again: ${title}`}
        onClick={() => void refetch()}
      >
        Try again
      </Button>
    </div>
  )
}
