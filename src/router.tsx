import type { QueryClient } from '@tanstack/react-query'
import { createRouter, type RouterHistory } from '@tanstack/react-router'
import { GenericError } from './components/GenericError.tsx'
import { routeTree } from './routeTree.gen.ts'

/** Creates the router. Tests pass a `history`; the default is the browser's. */
export function createAppRouter(queryClient: QueryClient, history?: RouterHistory) {
  return createRouter({
    routeTree,
    context: { queryClient },
    ...(history && { history }),
    // The default parser reads JSON, and would change a code such as 00123, null or "x".
    parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
    stringifySearch: (search) => {
      const text = new URLSearchParams(
        Object.entries(search).filter((entry): entry is [string, string] => entry[1] !== undefined),
      ).toString()
      return text === '' ? '' : `?${text}`
    },
    defaultErrorComponent: GenericError,
    defaultNotFoundComponent: GenericError,
  })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>
  }
}
