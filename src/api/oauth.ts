import { useQuery } from '@tanstack/react-query'
import { endpoints, exchangeRefused, pathOf } from '../../contract/endpoints.ts'
import type { Provider } from '../parse-config.ts'
import { call } from './client.ts'
import { loadStatus } from './connections.ts'
import { ApiError } from './errors.ts'
import { callbackKey } from './keys.ts'
import { changePerson } from './person.ts'
import { callOptions } from './query-client.ts'

/** The search parameters of the provider's redirect (RFC 6749 §4.1.2). */
export interface AuthorizationResponse {
  code?: string | undefined
  state?: string | undefined
  error?: string | undefined
  /** The page was loaded again after it had sent the code. */
  wasSent?: true | undefined
}

/**
 * The callback is a query although it has a side effect. A code works only once. The cache key
 * prevents StrictMode, a remount, focus or reconnect from sending it twice.
 */
const oauthCallbackQuery = (provider: Provider, response: AuthorizationResponse) =>
  callOptions({
    queryKey: [...callbackKey, provider.id, response],
    queryFn: async () => {
      const { code, state, error, wasSent } = response
      if (!code || error !== undefined) {
        if (wasSent && (await loadStatus(provider)).connected) return true
        throw new ApiError('code', { sentence: `Missing ${provider.name} code` })
      }
      try {
        // The dashboard may be on screen, because the user did not wait.
        await changePerson(() =>
          // ky leaves out a state that is undefined.
          call('GET', pathOf(endpoints.callback, provider.id), {
            searchParams: { code, state },
            // The server writes this sentence out of its own words.
            readsRefusal: exchangeRefused,
          }),
        )
      } catch (error) {
        if (isWithoutSession(error)) {
          error.message =
            'The browser kept no cookie for this page. Allow cookies, and connect again'
        }
        throw error
      }
      // A query must not return undefined.
      return true
    },
    // Meanwhile the server may still exchange a code that was sent, for about ten seconds.
    retry: (times) => !response.code && response.wasSent === true && times < 10,
    retryDelay: 1000,
    staleTime: Infinity,
    gcTime: Infinity,
    meta: { action: `Connecting ${provider.name}` },
  })

/** Whether a callback was refused because the browser kept no cookie. A backend of §7 does not say whom it knows. */
function isWithoutSession(error: unknown): error is ApiError {
  if (!(error instanceof ApiError) || (error.status ?? 500) >= 500) return false
  return error.person === 'nobody' || !mayStore()
}

/** Whether the page may store anything. `navigator.cookieEnabled` is true in a Chromium whose user blocks all cookies. */
function mayStore(): boolean {
  try {
    return window.localStorage !== undefined
  } catch {
    return false
  }
}

export const useOAuthCallback = (provider: Provider, response: AuthorizationResponse) =>
  useQuery(oauthCallbackQuery(provider, response))
