import { MutationCache, notifyManager, QueryCache, QueryClient } from '@tanstack/react-query'
import { ApiError } from './errors.ts'

interface Meta extends Record<string, unknown> {
  /** What was being done, for the log: '{action} failed: {message}'. */
  action: string
}

declare module '@tanstack/react-query' {
  interface Register {
    queryMeta: Meta
    mutationMeta: Meta
  }
}

// Query's default is a timer of its own for each change; in a microtask a tick is on screen with
// the click that made it.
notifyManager.setScheduler(queueMicrotask)

/** One more try for a read that a moment's fault may have broken; a refusal or a timeout stands. */
function retryRead(failureCount: number, error: unknown): boolean {
  const isMomentary =
    error instanceof ApiError && (error.kind === 'network' || (error.status ?? 0) >= 500)
  return failureCount < 1 && isMomentary
}

/** Makes the query client: what holds for every query and mutation, and the one log of their failures. */
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
        // 'online' would hold a call back while the browser believes to be offline and send it later.
        networkMode: 'always',
      },
      mutations: { retry: false, networkMode: 'always' },
    },
  })
}

function logFailure(meta: Meta | undefined, error: unknown): void {
  const reason = error instanceof Error ? error.message : 'unknown reason'
  console.error(`${meta?.action ?? 'A call'} failed: ${reason}`)
}
