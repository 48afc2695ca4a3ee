import { MutationCache, notifyManager, QueryCache, QueryClient } from '@tanstack/react-query'
import type { Feature } from '../../contract/endpoints.ts'
import { ApiError } from './errors.ts'

interface Meta extends Record<string, unknown> {
  /** What failed, for the log: '{action} failed: {message}'. */
  action: string
  /** The feature beyond §7 that the query belongs to. */
  feature?: Feature
}

declare module '@tanstack/react-query' {
  interface Register {
    queryMeta: Meta
    mutationMeta: Meta
  }
}

// By default, Query notifies components in a timer. With a microtask, a checkbox changes in the
// frame of its click.
notifyManager.setScheduler(queueMicrotask)

/** Retries a read once after a fault that may be temporary, but not after a 4xx or a timeout. */
function retryRead(failureCount: number, error: unknown): boolean {
  const isTemporary =
    error instanceof ApiError && (error.kind === 'network' || (error.status ?? 0) >= 500)
  return failureCount < 1 && isTemporary
}

/** Creates the query client, with defaults for all queries and mutations. It logs failures. */
export function createQueryClient({ retryDelayMs = 1000 } = {}): QueryClient {
  return new QueryClient({
    queryCache: new QueryCache({
      onError: (error, query) => logFailure(query.meta, error),
    }),
    mutationCache: new MutationCache({
      onError: (error, _variables, _context, mutation) => logFailure(mutation.meta, error),
    }),
    defaultOptions: {
      queries: {
        retry: retryRead,
        retryDelay: retryDelayMs,
        // With 'online', Query would send an offline call later, without the user's knowledge.
        networkMode: 'always',
      },
      mutations: { retry: false, networkMode: 'always' },
    },
  })
}

/**
 * Forgets what the features beyond §7 said: it was about other connections, or about another user. What is
 * still on screen loads again.
 */
export function resetFeatures(queryClient: QueryClient): Promise<void> {
  return queryClient.resetQueries({ predicate: ({ meta }) => meta?.feature !== undefined })
}

function logFailure(meta: Meta | undefined, error: unknown): void {
  const reason = error instanceof Error ? error.message : 'unknown reason'
  console.error(`${meta?.action ?? 'A call'} failed: ${reason}`)
}
