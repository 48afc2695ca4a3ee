import { createMemoryHistory, RouterProvider } from '@tanstack/react-router'
import { render } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { StrictMode } from 'react'
import { createQueryClient } from '../src/api/query-client.ts'
import { createAppRouter } from '../src/router.tsx'
import { createBackend, type RecordedRequest } from './msw/handlers.ts'
import { server } from './msw/server.ts'

/** Starts the backend in memory, and lists the requests that reach it. */
export function startBackend(initial?: Parameters<typeof createBackend>[0]) {
  const backend = createBackend(initial)
  server.use(...backend.handlers)
  return { ...backend, requests: recordRequests() }
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

/** Renders the whole app, as main.tsx does, at an address. */
export function renderApp(...addresses: [string, ...string[]]) {
  const history = createMemoryHistory({ initialEntries: addresses })
  const queryClient = createQueryClient({ retryDelayMs: 0 })
  const router = createAppRouter(queryClient, history)
  const user = userEvent.setup()
  const view = render(
    <StrictMode>
      <RouterProvider router={router} />
    </StrictMode>,
  )
  return { ...view, history, queryClient, router, user }
}
