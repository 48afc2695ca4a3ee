import { type QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createMemoryHistory, type RouterHistory, RouterProvider } from '@tanstack/react-router'
import { act, render, renderHook } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { StrictMode } from 'react'
import { onTestFinished, vi } from 'vitest'
import { createQueryClient } from '../src/api/query-client.ts'
import { createAppRouter } from '../src/router.tsx'
import { createBackend, type RecordedRequest } from './msw/handlers.ts'
import { server } from './msw/server.ts'

/**
 * Starts the backend in memory, and lists the requests that reach it: `requests` whole, `calls()` as
 * lines such as 'GET /health', those only that begin with `start`.
 */
export function startBackend(initial?: Parameters<typeof createBackend>[0]) {
  const backend = createBackend(initial)
  server.use(...backend.handlers)
  const requests = recordRequests()
  const calls = (start = '') =>
    requests
      .map(({ method, target }) => `${method} ${target}`)
      .filter((line) => line.startsWith(start))
  return { ...backend, requests, calls }
}

function recordRequests(): RecordedRequest[] {
  const requests: RecordedRequest[] = []
  server.events.removeAllListeners()
  server.events.on('request:start', async ({ request }) => {
    const { pathname, search } = new URL(request.url)
    const entry: RecordedRequest = {
      method: request.method,
      target: pathname + search,
      body: '',
      credentials: request.credentials,
    }
    requests.push(entry)
    entry.body = await request.clone().text()
  })
  return requests
}

/** Renders the whole app, as main.tsx does, at the last of the addresses; the others lie behind Back. */
export function renderApp(...addresses: [string, ...string[]]) {
  return renderAppWith(createMemoryHistory({ initialEntries: addresses }))
}

/** Runs a hook as the app does, with no app around it. */
export function renderAppHook<Result>(hook: () => Result, queryClient = makeQueryClient()) {
  const view = renderHook(hook, {
    wrapper: ({ children }) => (
      <StrictMode>
        <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
      </StrictMode>
    ),
  })
  return { ...view, queryClient }
}

/** Renders the whole app on a history of its own: the browser's, for what only that one does. */
export function renderAppWith(history: RouterHistory) {
  const queryClient = makeQueryClient()
  const router = createAppRouter(queryClient, history)
  const user = userEvent.setup()
  const view = render(
    <StrictMode>
      <RouterProvider router={router} />
    </StrictMode>,
  )
  return { ...view, history, queryClient, router, user }
}

function makeQueryClient(): QueryClient {
  const queryClient = createQueryClient({ retryDelayMs: 0 })
  // What still hangs when its test is over times out in another's time, and is no failure of that one.
  onTestFinished(() => {
    queryClient.getQueryCache().config = {}
    queryClient.getMutationCache().config = {}
    queryClient.clear()
  })
  return queryClient
}

/** The tab is looked at again. */
export function lookAgain(): void {
  act(() => {
    document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
  })
}

/** The network goes, or is back, as the browser tells it. */
export function setOnline(isOnline: boolean): void {
  vi.spyOn(navigator, 'onLine', 'get').mockReturnValue(isOnline)
  act(() => {
    window.dispatchEvent(new Event(isOnline ? 'online' : 'offline'))
  })
}

/** Every text that the page shows from here on. */
export function recordTexts(): string[] {
  const texts: string[] = []
  new MutationObserver(() => texts.push(document.body.textContent ?? '')).observe(document.body, {
    subtree: true,
    childList: true,
    characterData: true,
  })
  return texts
}
