import { type QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createRootRouteWithContext, Outlet, useMatches } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { healthQuery } from '../api/health.ts'
import { Header } from '../components/Header.tsx'
import { HealthGate } from '../components/HealthGate.tsx'
import { Footer } from '../ui/Footer.tsx'
import { focusHeading } from '../ui/Screen.tsx'

export const Route = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  loader: ({ context }) => {
    // Not awaited: the gate shows the query's state, and the child's loader asks at the same time.
    context.queryClient.query(healthQuery).catch(() => {})
  },
  component: Root,
})

function Root() {
  const { queryClient } = Route.useRouteContext()
  const screen = useMatches({ select: (matches) => matches.at(-1)?.id })
  // A screen reader and the keyboard go on at the new screen's heading. Not by the router's event
  // `onRendered`: a navigation that another overtakes, or that renders in two steps, has none.
  const shown = useRef(screen)
  useEffect(() => {
    if (shown.current !== screen) focusHeading()
    shown.current = screen
  }, [screen])
  return (
    <QueryClientProvider client={queryClient}>
      <HealthGate>
        <div className="flex min-h-svh flex-col">
          <Header />
          <Outlet />
          {/* Each screen has its own, so that none slides from the place it had on the last one. */}
          <Footer key={screen} />
        </div>
      </HealthGate>
    </QueryClientProvider>
  )
}
