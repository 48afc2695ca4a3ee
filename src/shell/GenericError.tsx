import { failureText } from '../ui/Boundary.tsx'
import { buttonStyle } from '../ui/button-style.ts'
import { WarningSign } from '../ui/icons.tsx'
import { Screen } from '../ui/Screen.tsx'

export const NotFound = () => <ErrorPage title="Page not found" />

/** The page for a screen that failed to render. */
export const GenericError = () => <ErrorPage title="Something went wrong" />

/** Both say the sentence of §8. */
function ErrorPage({ title }: { title: string }) {
  return (
    <Screen title={title} icon={<WarningSign />}>
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
