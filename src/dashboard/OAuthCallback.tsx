import { useNavigate } from '@tanstack/react-router'
import { useEffect } from 'react'
import { authorizationFailure } from '../api/connections.ts'
import { type AuthorizationResponse, useOAuthCallback } from '../api/oauth.ts'
import { config } from '../config.ts'
import type { Provider } from '../parse-config.ts'
import { RedCross, Spinner } from '../ui/icons.tsx'
import { Screen } from '../ui/Screen.tsx'

/** How long the page shows a failed authorization before it leaves, in milliseconds (§9). */
const redirectDelayMs = 3000

export function OAuthCallback({
  provider,
  response,
}: {
  provider: Provider
  response: AuthorizationResponse
}) {
  const navigate = useNavigate()
  const callback = useOAuthCallback(provider, response)

  // Replace the history entry, so that Back does not lead to a finished authorization.
  useEffect(() => {
    if (callback.isSuccess) void navigate({ to: '/', replace: true })
    if (!callback.isError) return
    const timer = setTimeout(() => {
      void (provider.id === config.crm.id
        ? navigate({ to: '/connect/$provider', params: { provider: provider.id }, replace: true })
        : navigate({ to: '/', replace: true }))
    }, redirectDelayMs)
    return () => clearTimeout(timer)
  }, [callback.isSuccess, callback.isError, navigate, provider])

  return (
    <Screen
      title={`Connecting ${provider.name}`}
      icon={callback.isError ? <RedCross /> : <Spinner />}
    >
      {callback.isError ? (
        <div>
          <p role="alert">{authorizationFailure(provider.name, callback.error)}</p>
          <p className="text-muted">This page goes on by itself in a moment.</p>
        </div>
      ) : (
        <p role="status">{`Handling ${provider.name} OAuth Callback...`}</p>
      )}
    </Screen>
  )
}
