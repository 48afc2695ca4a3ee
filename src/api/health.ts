import { queryOptions, useQuery } from '@tanstack/react-query'
import { endpoints, healthAnswer } from '../../contract/endpoints.ts'
import { getJson } from './client.ts'

/** How long to wait before asking an unavailable backend again, in milliseconds. */
const healthRetryMs = 5000

export const healthQuery = queryOptions({
  queryKey: ['health'],
  queryFn: async ({ client, queryKey }) => {
    const health = await getJson(endpoints.health.path, healthAnswer)
    // The backend was down. Other queries have failed for that reason, or their data is old: reload them.
    if ((client.getQueryState(queryKey)?.errorUpdateCount ?? 0) > 0) {
      client.removeQueries({ predicate: (query) => query.queryKey[0] !== queryKey[0] })
    }
    return health
  },
  retry: false,
  // The query may fail before the page mounts. Mounting does not repeat it; refetchInterval does.
  retryOnMount: false,
  staleTime: Infinity,
  gcTime: Infinity,
  refetchInterval: ({ state }) => (state.data === undefined ? healthRetryMs : false),
  // A successful answer never becomes stale. This refetch only helps after the backend was down.
  refetchOnReconnect: true,
  meta: { action: 'Checking the backend' },
})

export const useHealth = () => useQuery(healthQuery)
