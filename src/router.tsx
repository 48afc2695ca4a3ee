import type { QueryClient } from '@tanstack/react-query'
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  notFound,
  type RouterHistory,
  stringifySearchWith,
} from '@tanstack/react-router'
import { useEffect } from 'react'
import type { ActivityFilter } from './api/activity.ts'
import { connectionStatusQuery } from './api/connections.ts'
import { healthQuery } from './api/health.ts'
import type { AuthorizationResponse } from './api/oauth.ts'
import { expireRules, rulesQuery } from './api/rules.ts'
import { config } from './config.ts'
import { Dashboard } from './dashboard/Dashboard.tsx'
import { Root } from './routes/Root.tsx'
import { GenericError } from './shell/GenericError.tsx'
import { focusHeading } from './ui/focus.ts'
import { Loading } from './ui/Loading.tsx'

const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  loader: ({ context }) => {
    // Do not await: HealthGate shows the query's state, and the child route loads at the same time.
    context.queryClient.query(healthQuery).catch(() => {})
  },
  component: Root,
})
const getParentRoute = () => root

// Most visits are of the dashboard, so it is in the main script. Each other page has a script of its own.
const dashboard = createRoute({
  getParentRoute,
  path: '/',
  loader: ({ cause, context: { queryClient } }) => {
    // §4: the rules load when the dashboard opens. Another tab may have saved since the last time.
    if (cause === 'enter') void expireRules(queryClient)
    // Start all calls at the same time, and do not await them. The query cache logs failures. The boot script starts
    // them even earlier (build/boot.ts).
    queryClient.query(connectionStatusQuery(config.crm)).catch(() => {})
    queryClient.query(connectionStatusQuery(config.chat)).catch(() => {})
    queryClient.query(rulesQuery).catch(() => {})
  },
  staticData: { isPersonal: true },
  component: Dashboard,
})

const activity = createRoute({
  getParentRoute,
  path: '/activity',
  // The backend refuses what it does not know.
  validateSearch: ({ state, rule, q, day }: ActivityFilter): Omit<ActivityFilter, 'counts'> => ({
    state,
    rule,
    q,
    day,
  }),
  staticData: { isPersonal: true },
  component: lazyRouteComponent(() => import('./routes/ActivityPage.tsx'), 'ActivityPage'),
})

const callback = createRoute({
  getParentRoute,
  path: '/$provider/callback',
  validateSearch: ({ code, state, error }: AuthorizationResponse): AuthorizationResponse => ({
    code,
    state,
    error,
  }),
  beforeLoad: ({ location: { state } }) => ({
    visit: state.taken?.visit ?? state.__TSR_key ?? '',
    attempt: state.taken?.attempt,
  }),
  loader: ({ params }) => {
    const provider = [config.crm, config.chat].find(({ id }) => id === params.provider)
    if (!provider) throw notFound()
    return provider
  },
  component: lazyRouteComponent(() => import('./routes/CallbackPage.tsx'), 'CallbackPage'),
})

const connect = createRoute({
  getParentRoute,
  path: '/connect/$provider',
  loader: ({ params }) => {
    if (params.provider !== config.crm.id) throw notFound()
  },
  component: lazyRouteComponent(() => import('./routes/ConnectPage.tsx'), 'ConnectPage'),
})

const contact = createRoute({
  getParentRoute,
  path: '/contact',
  component: lazyRouteComponent(() => import('./routes/ContactPage.tsx'), 'ContactPage'),
})

const routeTree = root.addChildren({
  dashboard,
  activity,
  callback,
  connect,
  contact,
})

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
    defaultNotFoundComponent: GenericError,
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
