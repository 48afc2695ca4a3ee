import { Button } from '../ui/Button.tsx'
import { Warning } from '../ui/Warning.tsx'

/** Says that a load failed, and offers to try again. What is on the page stays there. */
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
    <div className="flex flex-wrap items-center gap-3">
      <div className="min-w-0 flex-1 basis-60">
        <Warning title={title}>{messageOf(error)}</Warning>
      </div>
      <Button busy={isTrying} label={`Try again: ${title}`} onClick={onTry}>
        Try again
      </Button>
    </div>
  )
}

/** The sentence of a failed call; empty if it has none. */
export const messageOf = (error: unknown) => (error instanceof Error ? `${error.message}.` : '')
