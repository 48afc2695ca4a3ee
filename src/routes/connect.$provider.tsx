import { createFileRoute, Link, notFound } from '@tanstack/react-router'
import { authorizeUrl, useFailedAuthorization, useIsConnected } from '../api/connections.ts'
import { useHasFeature } from '../api/health.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'
import { buttonStyle } from '../ui/button-style.ts'
import { passToHeading } from '../ui/focus.ts'
import { GreenCheck, RedCross } from '../ui/icons.tsx'
import { Screen } from '../ui/Screen.tsx'

export const Route = createFileRoute('/connect/$provider')({
  loader: ({ params }) => {
    if (params.provider !== config.crm.id) throw notFound()
  },
  component: ConnectPage,
})

function ConnectPage() {
  const { crm } = config
  const failure = useFailedAuthorization(crm)
  const isOffered = useHasFeature('activity')
  const isConnected = useIsConnected(crm)
  return (
    <Screen title={`Connect ${crm.name}`} icon={isConnected ? <GreenCheck /> : <RedCross />}>
      {isOffered && failure !== undefined && !isConnected && <p className="text-bad">{failure}</p>}
      {/* The server may still complete an attempt of which the page got no answer. */}
      <p role="status">
        {isConnected
          ? `${crm.name} is connected.`
          : failure === undefined
            ? `${crm.name} is not connected.`
            : `The last attempt to connect ${crm.name} has not succeeded. You can try again at any time.`}
      </p>
      <div className="flex flex-wrap gap-3">
        {!isConnected && (
          <Button
            ref={passToHeading}
            kind="primary"
            label={`Connect ${crm.name}`}
            onClick={() => window.location.assign(authorizeUrl(crm))}
          >
            Connect
          </Button>
        )}
        <Link
          to="/"
          preload={false}
          className={isConnected ? buttonStyle.primary : buttonStyle.secondary}
        >
          Back to the dashboard
        </Link>
      </div>
    </Screen>
  )
}
