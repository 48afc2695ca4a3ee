import { useCanEndSessions, type useEndOtherSessions, type useEndSession } from '../api/session.ts'
import { Button } from '../ui/Button.tsx'

/** Signs out this browser, or all others of the same user. Shown only if the backend can do it. */
export function SignOut({
  own,
  others,
  isReady,
}: {
  own: ReturnType<typeof useEndSession>
  others: ReturnType<typeof useEndOtherSessions>
  /** Whether both statuses are known. */
  isReady: boolean
}) {
  const canEndSessions = useCanEndSessions()
  // After a sign-out, everything is loaded again. This stays, so that it keeps the focus and the result is
  // announced.
  const hasResult = !own.isIdle || !others.isIdle
  if (!canEndSessions || !(isReady || hasResult)) return null

  return (
    <div className={`flex flex-wrap items-center gap-3 ${hasResult ? '' : 'after-rules'}`}>
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
