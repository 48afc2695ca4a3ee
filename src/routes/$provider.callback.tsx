import { createFileRoute, notFound } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { authorizationFailure } from '../api/connections.ts'
import { type AuthorizationResponse, attemptOf, useOAuthCallback } from '../api/oauth.ts'
import { config } from '../config.ts'
import { RedCross, Spinner } from '../ui/icons.tsx'
import { Screen } from '../ui/Screen.tsx'

/** How long the page shows a failed authorization before it leaves, in milliseconds (§9). */
const redirectDelayMs = 3000

export const Route = createFileRoute('/$provider/callback')({
  validateSearch: ({ code, state, error }: AuthorizationResponse): AuthorizationResponse => ({
    code,
    state,
    error,
  }),
  beforeLoad: ({ location: { state } }) => ({
    visit: state.taken?.visit ?? state.__TSR_key ?? '',
    attempt: state.taken?.attempt,
  }),
  loader: ({ params }) => {
    const provider = [config.crm, config.chat].find(({ id }) => id === params.provider)
    if (!provider) throw notFound()
    return provider
  },
  component: CallbackPage,
})

declare module '@tanstack/react-router' {
  interface HistoryState {
    /** The page has taken the response out of this address. After a reload, the history still knows what became of it. */
    taken?: { visit: string; attempt: ReturnType<typeof attemptOf> }
  }
}

/** Another response may come to the same page. */
function CallbackPage() {
  return <Callback key={Route.useRouteContext().visit} />
}

function Callback() {
  const { visit, attempt } = Route.useRouteContext()
  const search = Route.useSearch()
  const provider = Route.useLoaderData()
  const navigate = Route.useNavigate()
  // The code is a secret: remove it from the address bar and the history at once. Only this page keeps it.
  const [response] = useState<AuthorizationResponse>(attempt ? { attempt } : search)
  const callback = useOAuthCallback(provider, response)
  const { error } = callback
  useEffect(() => {
    const taken = { visit, attempt: attemptOf(response, error) }
    void navigate({ search: {}, replace: true, state: { taken } })
  }, [navigate, visit, response, error])

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
    <Screen title={`Connecting ${provider.name}`} icon={error ? <RedCross /> : <Spinner />}>
      {error ? (
        <div>
          <p role="alert">{authorizationFailure(provider.name, error)}</p>
          <p className="text-muted">
            {error.kind === 'denied' && 'You did not allow access. Nothing was changed. '}
            <span>This page goes on by itself in a moment.</span>
          </p>
        </div>
      ) : (
        <p role="status">{`Handling ${provider.name} OAuth Callback...`}</p>
      )}
    </Screen>
  )
}
