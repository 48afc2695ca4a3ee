import type { QueryClient } from '@tanstack/react-query'
import { createRouter, type RouterHistory, stringifySearchWith } from '@tanstack/react-router'
import { useEffect } from 'react'
import { routeTree } from './routeTree.gen.ts'
import { GenericError, NotFound } from './shell/GenericError.tsx'
import { focusHeading } from './ui/focus.ts'
import { Loading } from './ui/Loading.tsx'

/** Creates the router. Tests pass a `history`; the default is the browser's. */
export function createAppRouter(queryClient: QueryClient, history?: RouterHistory) {
  return createRouter({
    routeTree,
    context: { queryClient },
    ...(history && { history }),
    // The default parser reads JSON, and would change a code such as 00123, null or "x".
    parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
    stringifySearch: stringifySearchWith(String),
    // The script of a page, and its calls, load when the pointer or the focus comes to its link.
    defaultPreload: 'intent',
    defaultPendingComponent: Pending,
    defaultErrorComponent: GenericError,
    defaultNotFoundComponent: NotFound,
  })
}

/** Shown while the script of the next screen is slow. That screen then gets the focus, as after every navigation. */
function Pending() {
  useEffect(() => focusHeading, [])
  return <Loading />
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createAppRouter>
  }
  interface StaticDataRouteOption {
    /** The page shows a person's data, so the header has the account menu. */
    isPersonal?: true
  }
}
