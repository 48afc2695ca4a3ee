import { Button } from '../ui/Button.tsx'
import { WarningSign } from '../ui/icons.tsx'

/**
 * Says that a load failed, and offers to try again. What is on the page stays there.
 * It does not use ui/Warning.tsx: what this page shares with the dashboard would be one more script there.
 */
export function ActivityFailure({
  title,
  error,
  isTrying,
  onTry,
}: {
  title: string
  error: unknown
  isTrying: boolean
  onTry: () => void
}) {
  return (
    <div className="flex flex-wrap items-center gap-3 rounded-xl border border-warning-line bg-warning p-4 text-on-warning">
      <WarningSign />
      <div role="alert" className="min-w-0 flex-1 basis-40">
        <p className="font-semibold">{title}</p>
        <p className="text-sm">{messageOf(error)}</p>
      </div>
      <Button busy={isTrying} label={`Try again: ${title}`} onClick={onTry}>
        Try again
      </Button>
    </div>
  )
}

/** The sentence of a failed call; empty if it has none. */
export const messageOf = (error: unknown) => (error instanceof Error ? `${error.message}.` : '')
