import { loadAgain } from '../api/person.ts'
import { useReach } from '../api/reach.ts'
import { Button } from '../ui/Button.tsx'
import { Warning } from '../ui/Warning.tsx'

/** Visible on every screen: something in front of the backend answers in its place, so nothing on the page can work. */
export function SignInEnded() {
  return (
    <div className="top-0 z-10 mx-auto w-full max-w-3xl bg-canvas px-4 has-[p]:py-4 sm:px-6 tall:sticky">
      <Warning
        isShown={useReach() === 'signed out'}
        title="The sign-in in front of this page has probably ended"
      >
        <span className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <span>Load the page again to sign in. Your unsaved changes stay.</span>
          <Button onClick={loadAgain}>Load again</Button>
        </span>
      </Warning>
    </div>
  )
}
