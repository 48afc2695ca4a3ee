import { buttonStyle } from '../ui/button-style.ts'
import { WarningSign } from '../ui/icons.tsx'
import { Screen } from '../ui/Screen.tsx'

/** What is shown for an address that is none of ours and for a screen that failed to render (§8). */
export function GenericError() {
  return (
    <Screen title="Something went wrong" icon={<WarningSign />}>
      <p role="alert">Something went wrong. Please try again later.</p>
      <div>
        {/* A full load: whatever broke on this page is not carried over. */}
        <a href="/" className={buttonStyle.secondary}>
          Back to the dashboard
        </a>
      </div>
    </Screen>
  )
}
