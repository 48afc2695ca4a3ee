import { useQuery } from '@tanstack/react-query'
import { endpoints, exchangeRefused, pathOf } from '../../contract/endpoints.ts'
import type { Provider } from '../config.ts'
import { callForPerson } from './client.ts'
import { loadStatus, noticeAuthorization } from './connections.ts'
import { ApiError } from './errors.ts'
import { callbackKey } from './keys.ts'
import { changePerson } from './person.ts'
import { callOptions } from './query-client.ts'

/** The search parameters of the provider's redirect (RFC 6749 §4.1.2). */
export interface AuthorizationResponse {
  code?: string | undefined
  state?: string | undefined
  error?: string | undefined
  /** In place of the others, after a reload: what became of them. */
  attempt?: Attempt
}

interface Attempt {
  /** The server may still exchange the code that was sent. */
  isOpen: boolean
  failure?: Pick<ApiError, 'kind' | 'message'>
}

/** What is known of an authorization, without its secrets. */
export function attemptOf(response: AuthorizationResponse, error: ApiError | null): Attempt {
  const { code, error: denied, attempt } = response
  const wasOpen = attempt?.isOpen ?? (code !== undefined && code !== '' && denied === undefined)
  if (error === null) return attempt ?? { isOpen: wasOpen }
  const { kind, message } = error
  // With a code, the answer is the server's own.
  const isRefusal = error.isRefusal || error.code !== undefined
  return { isOpen: wasOpen && !isRefusal, failure: { kind, message } }
}

/**
 * The callback is a query although it has a side effect. A code works only once. The cache key
 * prevents StrictMode, a remount, focus or reconnect from sending it twice.
 */
const oauthCallbackQuery = (provider: Provider, response: AuthorizationResponse) =>
  callOptions({
    queryKey: [...callbackKey, provider.id, response],
    queryFn: async () => {
      // What the one before failed with is over.
      noticeAuthorization(provider)
      const { code, state, error, attempt } = response
      if (!code || error !== undefined) {
        if (attempt?.isOpen && (await loadStatus(provider)).connected) return true
        const refused = deniedErrors.includes(error ?? '') ? 'denied' : 'code'
        const { kind = refused, message = `Missing ${provider.name} code` } = attempt?.failure ?? {}
        throw new ApiError(kind, { sentence: message })
      }
      try {
        // The dashboard may be on screen, because the user did not wait.
        await changePerson(() =>
          // ky leaves out a state that is undefined.
          callForPerson('GET', pathOf(endpoints.callback, provider.id), {
            searchParams: { code, state },
            // The server writes this sentence out of its own words.
            readsRefusal: exchangeRefused,
          }),
        )
      } catch (error) {
        // A sentence of the server says more.
        if (isWithoutSession(error) && error.code === undefined) {
          error.message =
            'The browser kept no cookie for this page. Allow cookies, and connect again'
        }
        throw error
      }
      // A query must not return undefined.
      return true
    },
    // The exchange may take about ten seconds.
    retry: (times) => response.attempt?.isOpen === true && times < 10,
    retryDelay: 1000,
    staleTime: Infinity,
    gcTime: Infinity,
    meta: {
      action: `Connecting ${provider.name}`,
      // What the user has refused needs no word on the dashboard.
      onFailure: (error) => {
        if (error.kind !== 'denied') noticeAuthorization(provider, error)
      },
    },
  })

/** What a provider says if the user refuses (RFC 6749 §4.1.2.1), and what Pipedrive says. */
const deniedErrors = ['access_denied', 'user_denied']

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
