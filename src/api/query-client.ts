import {
  focusManager,
  MutationCache,
  notifyManager,
  type Query,
  QueryCache,
  QueryClient,
  type QueryKey,
  queryOptions,
  type UnusedSkipTokenOptions,
} from '@tanstack/react-query'
import type { Feature } from '../../contract/endpoints.ts'
import type { ApiError } from './errors.ts'
import { beginPage, noticePerson, shownPerson } from './person.ts'

export interface Meta extends Record<string, unknown> {
  /** What failed, for the log: '{action} failed: {message}'. */
  action: string
  /** The feature beyond §7 that the query belongs to. */
  feature?: Feature
  /** What an answer is about, if that matters. `nobody`: it stays when the person changes. */
  about?: 'nobody' | 'connections' | 'rules' | 'ticks'
}

declare module '@tanstack/react-query' {
  interface Register {
    queryMeta: Meta
    mutationMeta: Meta
    // client.ts and person.ts throw nothing else.
    defaultError: ApiError
  }
}

/** `queryOptions` of a call. Query itself does not require a `meta`, without which the log cannot say what failed. */
export const callOptions = <Answer, Key extends QueryKey>(
  options: UnusedSkipTokenOptions<Answer, ApiError, Answer, Key> & { meta: Meta },
) => queryOptions(options)

// By default, Query notifies components in a timer. With a microtask, a checkbox changes in the
// frame of its click.
notifyManager.setScheduler(queueMicrotask)

/** How often something on screen is loaded again that is probably about to change, in milliseconds. */
export const againMs = 10_000

/** A `refetchInterval`: what failed is loaded again while it is on screen. */
export const whileFailed = ({ state }: { state: { status: string } }): number | false =>
  state.status === 'error' && againMs

/** Retries a read once after a fault that may be temporary, but not after a 4xx or a timeout. */
function retryRead(failureCount: number, { kind, status = 0 }: ApiError): boolean {
  return failureCount < 1 && (kind === 'network' || status >= 500)
}

/**
 * Creates the query client of a page, with defaults for all queries and mutations. It logs failures, and
 * forgets everything when the page gets another person.
 */
export function createQueryClient({ retryDelayMs = 1000 } = {}): QueryClient {
  const queryClient = new QueryClient({
    queryCache: new QueryCache({
      onError: (error, query) => logFailure(query.meta, error),
    }),
    mutationCache: new MutationCache({
      onError: (error, _variables, _context, mutation) => {
        logFailure(mutation.meta, error)
        // A refusal may be the first answer that names another person.
        noticePerson(error.person)
      },
    }),
    defaultOptions: {
      queries: {
        retry: retryRead,
        retryDelay: retryDelayMs,
        // With 'online', Query would send an offline call later, without the user's knowledge.
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  })
  beginPage({
    // This also drops the answers that are on their way.
    forget: ({ keepsTicks }) =>
      void queryClient.resetQueries({
        predicate: (query) => isPersonal(query) && !(keepsTicks && query.meta?.about === 'ticks'),
      }),
    reload: () => {
      void reloadStatuses(queryClient)
      void resetFeatures(queryClient)
    },
    reloadRules: () =>
      void queryClient.refetchQueries({ predicate: ({ meta }) => meta?.about === 'rules' }),
  })
  // The person may have changed while the tab was hidden. Query loads the statuses on screen again. A screen without
  // calls notices the change when the next screen loads a status.
  focusManager.subscribe(() => {
    if (shownPerson() === undefined) return
    void queryClient.invalidateQueries({ predicate: isStatus, refetchType: 'none' })
  })
  return queryClient
}

const isPersonal = ({ meta }: Pick<Query, 'meta'>) => meta?.about !== 'nobody'

/** Loads again everything about the person: now what is on screen, the rest when it is shown. */
export function reloadPerson(queryClient: QueryClient): Promise<void> {
  return queryClient.invalidateQueries({ predicate: isPersonal })
}

const isStatus = ({ meta }: Pick<Query, 'meta'>) => meta?.about === 'connections'

/** Loads both connection statuses again: now if they are on screen, otherwise when they are shown. */
export function reloadStatuses(queryClient: QueryClient): Promise<void> {
  return queryClient.invalidateQueries({ predicate: isStatus })
}

/**
 * Forgets what the features beyond §7 said: it was about other connections, or about another user. What is
 * still on screen loads again.
 */
export function resetFeatures(queryClient: QueryClient): Promise<void> {
  return queryClient.resetQueries({ predicate: ({ meta }) => meta?.feature !== undefined })
}

export function logFailure(meta: Meta | undefined, { kind, message, field }: ApiError): void {
  if (kind === 'former') return
  console.error(`${meta?.action ?? 'A call'} failed: ${message}${field ? ` (${field})` : ''}`)
}
