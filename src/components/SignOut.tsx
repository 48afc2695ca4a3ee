import { useCanEndSessions, type useEndOtherSessions, type useEndSession } from '../api/session.ts'
import { Button } from '../ui/Button.tsx'

/** Signs out this browser, or all others of the same user. Shown only if the backend can do it. */
export function SignOut({
  own,
  others,
}: {
  own: ReturnType<typeof useEndSession>
  others: ReturnType<typeof useEndOtherSessions>
}) {
  const canEndSessions = useCanEndSessions()
  if (!canEndSessions) return null

  return (
    <div className="flex flex-wrap items-center gap-3">
      <Button
        busy={own.isPending}
        onClick={() => {
          others.reset()
          own.mutate()
        }}
      >
        Sign out of this browser
      </Button>
      <Button
        busy={others.isPending}
        onClick={() => {
          own.reset()
          others.mutate()
        }}
      >
        Sign out of all other browsers
      </Button>
      <p role="status" className="min-w-40 flex-1 text-sm">
        {own.isSuccess && 'Signed out of this browser.'}
        {others.isSuccess && 'Signed out of all other browsers.'}
        {(own.isError || others.isError) && '❌ Failed to sign out, try again.'}
      </p>
    </div>
  )
}
