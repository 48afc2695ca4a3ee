import { type QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createRootRouteWithContext, Outlet, useMatches } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { healthQuery } from '../api/health.ts'
import { watchFocus } from '../api/person.ts'
import { Header } from '../shell/Header.tsx'
import { HealthGate } from '../shell/HealthGate.tsx'
import { SignInEnded } from '../shell/SignInEnded.tsx'
import { Footer } from '../ui/Footer.tsx'
import { focusHeading } from '../ui/focus.ts'

export const Route = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  loader: ({ context }) => {
    // Do not await: HealthGate shows the query's state, and the child route loads at the same time.
    context.queryClient.query(healthQuery).catch(() => {})
  },
  component: Root,
})

function Root() {
  const { queryClient } = Route.useRouteContext()
  const screen = useMatches({ select: (matches) => matches.at(-1)?.id })
  // After a navigation, focus the new heading. The router's `onRendered` event is not enough: it is
  // missing if the next navigation starts early, or if the screen renders in two steps.
  const lastScreen = useRef(screen)
  useEffect(() => {
    if (lastScreen.current !== screen) focusHeading()
    lastScreen.current = screen
  }, [screen])
  useEffect(watchFocus, [])
  return (
    <QueryClientProvider client={queryClient}>
      <HealthGate>
        <div className="flex min-h-svh flex-col">
          <Header />
          <SignInEnded />
          <Outlet />
          {/* Each screen has a new footer. The same footer would slide to its new place. */}
          <Footer key={screen} />
        </div>
      </HealthGate>
    </QueryClientProvider>
  )
}
