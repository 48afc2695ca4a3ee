import { Button } from './Button.tsx'
import { passFocus } from './focus.ts'
import { type Refusal, useRefusal } from './use-refusal.ts'

// When a new try succeeds, the checkbox of the rule or the button of the service gets the focus.
const passToControl = passFocus((own) =>
  own.closest(':has(> label), li')?.querySelector('input, button'),
)

/** A note that has no data yet: that it loads, or why it failed. The element with `id` says which. */
export function LoadingNote({
  id,
  query,
  pending,
  failed,
  subject,
}: {
  id: string
  query: { isFetched: boolean; isFetching: boolean; error: Refusal; refetch: () => unknown }
  pending: string
  failed: string
  /** Tells the buttons of several such parts apart. */
  subject: string
}) {
  const refusal = useRefusal(query.error)
  return (
    <>
      {/* Do not use isPending: after a failure, it is true again at each new attempt. */}
      <p id={id} className="inline">
        {query.isFetched ? `${failed} ${refusal && `${refusal} `}` : pending}
      </p>
      {query.isFetched && (
        <Button
          ref={passToControl}
          kind="text"
          label={`Try again: ${subject}`}
          busy={query.isFetching}
          onClick={() => void query.refetch()}
        >
          Try again
        </Button>
      )}
    </>
  )
}
