import { loadAgain } from '../api/person.ts'
import { useReach } from '../api/reach.ts'
import { Button } from '../ui/Button.tsx'
import { Warning } from '../ui/Warning.tsx'

/** In view on each screen: something in front of the backend answers in its place, so nothing on the page can work. */
export function SignInEnded() {
  return (
    <div className="sticky top-0 z-10 mx-auto w-full max-w-3xl bg-canvas has-[p]:p-4">
      <Warning
        isShown={useReach() === 'signed out'}
        title="The sign-in in front of this page has probably ended"
      >
        <span>Load the page again to sign in. Your unsaved changes stay. </span>
        <Button onClick={loadAgain}>Load again</Button>
      </Warning>
    </div>
  )
}
