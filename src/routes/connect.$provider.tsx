import { createFileRoute, Link, notFound } from '@tanstack/react-router'
import { authorizeUrl } from '../api/connections.ts'
import { useFailedAuthorization } from '../api/failed-authorization.ts'
import { useHasFeature } from '../api/health.ts'
import { config } from '../config.ts'
import { Button } from '../ui/Button.tsx'
import { buttonStyle } from '../ui/button-style.ts'
import { RedCross } from '../ui/icons.tsx'
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
  return (
    <Screen title={`Connect ${crm.name}`} icon={<RedCross />}>
      {isOffered && failure !== undefined && <p className="text-bad">{failure}</p>}
      <p>
        {`The last attempt to connect ${crm.name} did not succeed. It is over and has changed nothing; you can try again at any time.`}
      </p>
      <div className="flex flex-wrap gap-3">
        <Button
          kind="primary"
          label={`Connect ${crm.name}`}
          onClick={() => window.location.assign(authorizeUrl(crm))}
        >
          Connect
        </Button>
        <Link to="/" preload={false} className={buttonStyle.secondary}>
          Back to the dashboard
        </Link>
      </div>
    </Screen>
  )
}
