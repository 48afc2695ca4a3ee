import { useQuery } from '@tanstack/react-query'
import { endpoints, healthAnswer } from '../../contract/endpoints.ts'
import type { FeatureName } from '../../contract/features.ts'
import { config, type Provider } from '../config.ts'
import { getJson } from './client.ts'
import { healthKey, personKey } from './keys.ts'
import { callOptions } from './query-client.ts'

/** The wait before the next call to an unavailable backend, in milliseconds. */
const healthRetryMs = 5000

export const healthQuery = callOptions({
  queryKey: healthKey,
  queryFn: async ({ client, queryKey }) => {
    const health = await getJson(endpoints.health.path, healthAnswer)
    // If the backend was down, other queries have failed or their data is old. Load them again.
    if (client.getQueryState(queryKey)?.errorUpdateCount) {
      client.removeQueries({ queryKey: personKey })
    }
    return health
  },
  retry: false,
  staleTime: Infinity,
  gcTime: Infinity,
  refetchInterval: ({ state: { data, error } }) =>
    data === undefined && Math.max(healthRetryMs, error?.waitMs ?? 0),
  // These refetches happen only while the backend is down: a successful answer is never stale.
  refetchOnWindowFocus: true,
  refetchOnReconnect: true,
  meta: { action: 'Checking the backend' },
})

export const useHealth = () => useQuery(healthQuery)

/** Whether the backend can do what §7 does not name. Without it, the dashboard makes no such call. */
export function useHasFeature(feature: FeatureName): boolean {
  return useHealth().data?.features?.includes(feature) === true
}

/** The page on which the user sees what a stand-in has. Undefined if the service is none. */
export function useStandInUrl({ id }: Provider): string | undefined {
  const path = useHealth().data?.standIns?.[id]
  return path && `${config.apiUrl}${path}`
}
