import { failureText } from '../ui/Boundary.tsx'
import { buttonStyle } from '../ui/button-style.ts'
import { WarningSign } from '../ui/icons.tsx'
import { Screen } from '../ui/Screen.tsx'

/** The page for an unknown address, and for a screen that failed to render (§8). */
export function GenericError() {
  return (
    <Screen title="Something went wrong" icon={<WarningSign />}>
      {failureText}
      <div>
        {/* A plain link loads a new page, so no broken state remains. */}
        <a href="/" className={buttonStyle.secondary}>
          Back to the dashboard
        </a>
      </div>
    </Screen>
  )
}
