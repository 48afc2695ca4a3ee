import { queryOptions, useQuery } from '@tanstack/react-query'
import { endpoints, pathOf } from '../../contract/endpoints.ts'
import type { Provider } from '../parse-config.ts'
import { call } from './client.ts'
import { connectionStatusQuery } from './connections.ts'

/** What the provider's redirect brought back in the address (RFC 6749 §4.1.2). */
export interface AuthorizationResponse {
  code?: string | undefined
  state?: string | undefined
  error?: string | undefined
}

/**
 * The callback has a side effect and still is a query: a code can be spent once, and the cache key is
 * what stops StrictMode, a remount, focus or reconnect from spending it twice.
 */
const oauthCallbackQuery = (provider: Provider, { code, state, error }: AuthorizationResponse) =>
  queryOptions({
    queryKey: ['oauth-callback', provider.id, code, state, error],
    queryFn: async ({ client }) => {
      if (!code || error !== undefined) throw new Error(`Missing ${provider.name} code`)
      await call('GET', pathOf(endpoints.callback, provider.id), {
        searchParams: { code, ...(state !== undefined && { state }) },
      })
      // What was known of the connection is old now. A dashboard to come starts without it; one that is
      // on screen, since the user did not wait here, asks again, and takes no answer from before.
      const { queryKey } = connectionStatusQuery(provider)
      client.removeQueries({ queryKey, type: 'inactive' })
      await client.cancelQueries({ queryKey })
      void client.invalidateQueries({ queryKey })
      // A query must return something but undefined.
      return true
    },
    retry: false,
    staleTime: Infinity,
    gcTime: Infinity,
    retryOnMount: false,
    refetchOnMount: false,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    meta: { action: `Connecting ${provider.name}` },
  })

export const useOAuthCallback = (provider: Provider, response: AuthorizationResponse) =>
  useQuery(oauthCallbackQuery(provider, response))
