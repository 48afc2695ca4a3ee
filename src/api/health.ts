import { queryOptions, useQuery } from '@tanstack/react-query'
import { endpoints, healthAnswer } from '../../contract/endpoints.ts'
import { getJson } from './client.ts'

/** How often a backend that was found unavailable is asked again, in milliseconds. */
const healthRetryMs = 5000

export const healthQuery = queryOptions({
  queryKey: ['health'],
  queryFn: async ({ client, queryKey }) => {
    const health = await getJson(endpoints.health.path, healthAnswer)
    // What was asked while the backend was away failed for that reason, or is old: ask for it anew.
    if ((client.getQueryState(queryKey)?.errorUpdateCount ?? 0) > 0) {
      client.removeQueries({ predicate: (query) => query.queryKey[0] !== queryKey[0] })
    }
    return health
  },
  retry: false,
  // A failure that came before the page was mounted stands, and is not asked a second time.
  retryOnMount: false,
  staleTime: Infinity,
  gcTime: Infinity,
  refetchInterval: ({ state }) => (state.data === undefined ? healthRetryMs : false),
  // What was answered once is never stale: this is for a backend that was away.
  refetchOnReconnect: true,
  meta: { action: 'Checking the backend' },
})

export const useHealth = () => useQuery(healthQuery)
