import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query'
import { connectionStatusAnswer, endpoints, navigations, pathOf } from '../../contract/endpoints.ts'
import type { FeatureName } from '../../contract/features.ts'
import { config, type Provider } from '../config.ts'
import { call, getJson } from './client.ts'
import type { ApiError } from './errors.ts'
import { useHasFeature } from './health.ts'
import { featuresKey, statusKey } from './keys.ts'
import { againMs, callOptions, whileFailed } from './query-client.ts'
import { useSingleMutation } from './single-mutation.ts'
import { createStore } from './store.ts'

export const loadStatus = ({ id }: Provider) =>
  getJson(pathOf(endpoints.status, id), connectionStatusAnswer)

export const connectionStatusQuery = (provider: Provider) =>
  callOptions({
    queryKey: [...statusKey, provider.id],
    queryFn: () => loadStatus(provider),
    // The route starts the query when the dashboard opens, so the components that mount do not repeat it.
    staleTime: 5000,
    meta: { action: `Loading the ${provider.name} connection status` },
  })

export function useConnectionStatus(provider: Provider) {
  const hasFailed = useFailedAuthorization(provider) !== undefined
  return useQuery({
    ...connectionStatusQuery(provider),
    // The user may have connected in another tab.
    refetchOnWindowFocus: 'always',
    refetchOnReconnect: 'always',
    // The server may still complete an authorization of which the page got no answer, or find out that a broken
    // connection works again.
    refetchInterval: (query) => {
      const { connected, reason } = query.state.data ?? {}
      return whileFailed(query) || (!connected && (hasFailed || reason !== undefined) && againMs)
    },
  })
}

export const useIsConnected = (provider: Provider): boolean =>
  useConnectionStatus(provider).data?.connected === true

/** What the last authorization of each provider has failed with. */
const failures = createStore<Readonly<Record<string, string | undefined>>>({})

/** Notices how an authorization has ended. */
export const noticeAuthorization = ({ id, name }: Provider, error?: ApiError): void =>
  failures.set({ ...failures.get(), [id]: error && authorizationFailure(name, error) })

/** What the callback page said of this provider; undefined if the last authorization has not failed. */
export const useFailedAuthorization = ({ id }: Provider): string | undefined =>
  failures.use((now) => now[id])

export const authorizationFailure = (name: string, { kind, message }: ApiError): string =>
  `${name} connection failed: ${kind === 'unknown' ? `${name} OAuth failed unexpectedly` : message}`

/** The status for the account menu, also on a screen without connections: no call when the user looks at that again. */
export const useKnownStatus = (provider: Provider) => useQuery(connectionStatusQuery(provider))

/**
 * The `enabled` of a query that the backend answers only while a service is connected, and only if it offers the
 * feature.
 */
export function useCanAsk(provider: Provider, feature: FeatureName): () => boolean {
  const queryClient = useQueryClient()
  const isOffered = useHasFeature(feature)
  const isConnected = useIsConnected(provider)
  const { queryKey } = connectionStatusQuery(provider)
  // Also read the cache: after a disconnect, the reset comes before the next render.
  return () => isOffered && isConnected && queryClient.getQueryData(queryKey)?.connected === true
}

/** Whether the page knows that both services are connected. */
export function areConnected(queryClient: QueryClient): boolean {
  return [config.crm, config.chat].every(
    (provider) => queryClient.getQueryData(connectionStatusQuery(provider).queryKey)?.connected,
  )
}

export function useDisconnect(provider: Provider) {
  const queryClient = useQueryClient()
  const { queryKey } = connectionStatusQuery(provider)
  return useSingleMutation({
    mutationKey: ['disconnect', provider.id],
    mutationFn: () => call('DELETE', pathOf(endpoints.disconnect, provider.id)),
    onSuccess: async () => {
      // An answer to an earlier call must not restore the connection.
      await queryClient.cancelQueries({ queryKey })
      queryClient.setQueryData(queryKey, { connected: false })
      // It was about the connection. What is still on screen loads again.
      void queryClient.resetQueries({ queryKey: featuresKey })
    },
    // The server may have disconnected although its answer did not arrive.
    onSettled: (_data, error) => {
      if (error) void queryClient.invalidateQueries({ queryKey })
    },
    meta: { action: `Disconnecting ${provider.name}` },
  })
}

/** The browser navigates to this address to start the authorization flow (§7). */
export function authorizeUrl(provider: Provider): string {
  return `${config.apiUrl}${pathOf(navigations.authorize, provider.id)}`
}
