import { useQuery } from '@tanstack/react-query'
import { endpoints, pathOf } from '../../contract/endpoints.ts'
import type { Provider } from '../parse-config.ts'
import { call } from './client.ts'
import { ApiError } from './errors.ts'
import { changePerson } from './person.ts'
import { callOptions } from './query-client.ts'

/** The search parameters of the provider's redirect (RFC 6749 §4.1.2). */
export interface AuthorizationResponse {
  code?: string | undefined
  state?: string | undefined
  error?: string | undefined
}

/**
 * The callback is a query although it has a side effect. A code works only once. The cache key
 * prevents StrictMode, a remount, focus or reconnect from sending it twice.
 */
const oauthCallbackQuery = (provider: Provider, { code, state, error }: AuthorizationResponse) =>
  callOptions({
    queryKey: ['oauth-callback', provider.id, code, state, error],
    queryFn: async () => {
      if (!code || error !== undefined) {
        throw new ApiError('code', { sentence: `Missing ${provider.name} code` })
      }
      // The dashboard may be on screen, because the user did not wait.
      await changePerson(() =>
        // ky leaves out a state that is undefined.
        call('GET', pathOf(endpoints.callback, provider.id), { searchParams: { code, state } }),
      )
      // A query must not return undefined.
      return true
    },
    retry: false,
    staleTime: Infinity,
    gcTime: Infinity,
    retryOnMount: false,
    refetchOnMount: false,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    meta: { action: `Connecting ${provider.name}`, about: 'nobody' },
  })

export const useOAuthCallback = (provider: Provider, response: AuthorizationResponse) =>
  useQuery(oauthCallbackQuery(provider, response))
