import {
  MutationCache,
  notifyManager,
  QueryCache,
  QueryClient,
  queryOptions,
  type UnusedSkipTokenOptions,
} from '@tanstack/react-query'
import { ApiError } from './errors.ts'
import type { CallKey } from './keys.ts'
import { beginPage, type Notice, noticePerson } from './person.ts'

export interface Meta extends Record<string, unknown> {
  /** What failed, for the log: '{action} failed: {message}'. */
  action: string
  /** Is called when a read fails. */
  onFailure?: (error: ApiError) => void
  /** What the page says if it loads again, because the backend refused this change for another person. */
  failure?: Notice
}

declare module '@tanstack/react-query' {
  interface Register {
    queryMeta: Meta
    mutationMeta: Meta
    // client.ts and person.ts throw nothing else. Anything else is a fault of our own, which `logFailure` shows.
    defaultError: ApiError
  }
}

/** `queryOptions` of a call. Query itself does not require a `meta`, without which the log cannot say what failed. */
export const callOptions = <Answer, Key extends CallKey>(
  options: UnusedSkipTokenOptions<Answer, ApiError, Answer, Key> & { meta: Meta },
) => queryOptions(options)

// By default, Query notifies components in a timer. With a microtask, a checkbox changes in the
// frame of its click.
notifyManager.setScheduler(queueMicrotask)

/** How often something on screen is loaded again that is probably about to change, in milliseconds. */
export const againMs = 10_000

type Loading = { state: { error: ApiError | null } }

/**
 * A `refetchInterval` of so many milliseconds, or of more if the answer asks for it. What the backend has refused is not
 * loaded again by itself.
 */
export const every =
  (ms: number) =>
  ({ state: { error } }: Loading): number | false =>
    !(error?.isRefusal && error.waitMs === undefined) && Math.max(ms, error?.waitMs ?? 0)

/** A `refetchInterval`: what failed is loaded again while it is on screen. */
export const whileFailed = (query: Loading): number | false =>
  query.state.error !== null && every(againMs)(query)

/** For what is loaded again when it is shown again, if it is older than its `staleTime`. */
export const whenShown = {
  retryOnMount: true,
  refetchOnMount: true,
  refetchOnWindowFocus: true,
  refetchOnReconnect: true,
} as const

/** Retries a read once after a fault that may be temporary, but not after a 4xx, a timeout or a plea to wait. */
function retryRead(failureCount: number, { kind, status = 0, waitMs }: ApiError): boolean {
  return failureCount < 1 && (kind === 'network' || status >= 500) && waitMs === undefined
}

/** Creates the query client of a page, with defaults for all queries and mutations. It logs failures. */
export function createQueryClient({ retryDelayMs = 1000 } = {}): QueryClient {
  const queryClient = new QueryClient({
    queryCache: new QueryCache({
      onError: (error, { meta }) => {
        logFailure(meta, error)
        meta?.onFailure?.(error)
      },
    }),
    mutationCache: new MutationCache({
      onError: (error, _variables, _context, mutation) => {
        logFailure(mutation.meta, error)
        // A refusal may be the first answer that names another person.
        return noticePerson(error.person, mutation.meta?.failure)
      },
    }),
    defaultOptions: {
      queries: {
        retry: retryRead,
        retryDelay: retryDelayMs,
        // With 'online', Query would send an offline call later, without the user's knowledge.
        networkMode: 'always',
        // A call is made when its screen opens. Only some are repeated by themselves, and say so.
        retryOnMount: false,
        refetchOnMount: false,
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
      },
      mutations: { networkMode: 'always' },
    },
  })
  beginPage(queryClient)
  return queryClient
}

export function logFailure(meta: Meta | undefined, error: ApiError): void {
  const { kind, message, field } = error
  if (kind === 'unconnected') return
  const text = `${meta?.action ?? 'A call'} failed: ${message}${field ? ` (${field})` : ''}`
  // Only of a fault of our own. Another cause may contain an address with an authorization code.
  const cause = error instanceof ApiError ? error.cause : error
  if (cause === undefined) console.error(text)
  else console.error(text, cause)
}
