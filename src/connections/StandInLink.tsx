import { useConnectionStatus } from '../api/connections.ts'
import { useStandInUrl } from '../api/health.ts'
import { config, type Provider } from '../config.ts'

/** Below a connected stand-in: a link to the page where the user sees the service. */
export function StandInLink({ provider }: { provider: Provider }) {
  const channel = useConnectionStatus(provider).data?.channel
  const url = useStandInUrl(provider)
  if (url === undefined) return null
  return (
    <a
      href={url}
      target="_blank"
      rel="noopener"
      className="text-link inline-flex min-h-9 items-center pointer-coarse:min-h-11"
    >
      {/* One item of the flex box, which would drop the space at the end of another. */}
      <span>
        <span>{'Open '}</span>
        <bdi>
          {provider.id === config.crm.id
            ? `the ${provider.name} deals`
            : (channel ?? provider.name)}
        </bdi>
      </span>
    </a>
  )
}
