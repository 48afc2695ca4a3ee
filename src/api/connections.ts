import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { connectionStatusAnswer, endpoints, navigations, pathOf } from '../../contract/endpoints.ts'
import { config } from '../config.ts'
import type { Provider } from '../parse-config.ts'
import { call, getJson } from './client.ts'
import { useSingleMutation } from './single-mutation.ts'

export const connectionStatusQuery = (provider: Provider) =>
  queryOptions({
    queryKey: ['connection-status', provider.id],
    queryFn: () => getJson(pathOf(endpoints.status, provider.id), connectionStatusAnswer),
    // The route asks when the dashboard opens; long enough that its first load asks once.
    staleTime: 5000,
    // Each part of the page that shows a status mounts when it is known, or has failed: neither asks again.
    refetchOnMount: false,
    retryOnMount: false,
    // Connecting in another tab shows here as soon as this one is looked at again.
    refetchOnWindowFocus: 'always',
    refetchOnReconnect: 'always',
    meta: { action: `Loading the ${provider.name} connection status` },
  })

export const useConnectionStatus = (provider: Provider) => useQuery(connectionStatusQuery(provider))

export function useDisconnect(provider: Provider) {
  const queryClient = useQueryClient()
  const { queryKey } = connectionStatusQuery(provider)
  return useSingleMutation({
    mutationKey: ['disconnect', provider.id],
    mutationFn: () => call('DELETE', pathOf(endpoints.disconnect, provider.id)),
    onSuccess: async () => {
      // An answer that was asked for before the disconnect must not bring the connection back.
      await queryClient.cancelQueries({ queryKey })
      queryClient.setQueryData(queryKey, { connected: false })
    },
    meta: { action: `Disconnecting ${provider.name}` },
  })
}

/** Where the browser goes to start the provider's authorization flow (§7: a navigation, no call). */
export function authorizeUrl(provider: Provider): string {
  return `${config.apiUrl}${pathOf(navigations.authorize, provider.id)}`
}
