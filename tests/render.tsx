import type { QueryClient } from '@tanstack/react-query'
import {
  createBrowserHistory,
  createMemoryHistory,
  type RouterHistory,
  RouterProvider,
} from '@tanstack/react-router'
import { act, render } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { HttpResponse, http } from 'msw'
import { StrictMode } from 'react'
import { beforeEach, onTestFinished, vi } from 'vitest'
import { personHeader } from '../contract/endpoints.ts'
import { createQueryClient } from '../src/api/query-client.ts'
import { createAppRouter } from '../src/router.tsx'
import { createBackend, type RecordedRequest } from './msw/handlers.ts'
import { server, traffic } from './msw/server.ts'

// The app loads the script of a screen later. The first import may take longer than a test waits.
const { routesById, loadRouteChunk } = createAppRouter(createQueryClient())
await Promise.all(Object.values(routesById).map((route) => loadRouteChunk(route)))

/**
 * Starts the backend in memory. `requests` lists what reaches it; `calls(start)` lists the same as lines
 * such as 'GET /health', filtered by their start.
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

export const both = () => new Set(['hubspot', 'slack'])

/** Answers with this status and nothing else. */
export const withStatus = (status: number) => () => new HttpResponse(null, { status })

/** A body that begins and never ends. */
export const endlessBody = () =>
  new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode('{')) })

/**
 * Holds the answers of a call, or only the next one, until the returned function is called: with this status, or else
 * `answer`, or else the backend's own.
 */
export function hold(
  method: 'get' | 'post' | 'delete' | 'all',
  path: string,
  answer: () => Response | undefined = () => undefined,
  options: { once?: true } = {},
) {
  const held = Promise.withResolvers<number | undefined>()
  const resolver = async ({ requestId }: { requestId: string }) => {
    // Nobody waits for it until then.
    traffic.unanswered.delete(requestId)
    const status = await held.promise
    traffic.unanswered.add(requestId)
    return status === undefined ? answer() : withStatus(status)()
  }
  server.use(http[method](path, resolver, options))
  return (status?: number) => held.resolve(status)
}

function recordRequests(): RecordedRequest[] {
  const requests: RecordedRequest[] = []
  server.events.removeAllListeners()
  traffic.unanswered.clear()
  const end = ({ requestId }: { requestId: string }) => traffic.unanswered.delete(requestId)
  server.events.on('request:end', end)
  server.events.on('unhandledException', end)
  server.events.on('request:start', async ({ request, requestId }) => {
    traffic.calls += 1
    traffic.unanswered.add(requestId)
    const url = new URL(request.url)
    url.searchParams.sort()
    const entry: RecordedRequest = {
      method: request.method,
      target: url.pathname + url.search,
      body: '',
      person: request.headers.get(personHeader),
    }
    requests.push(entry)
    entry.body = await request.clone().text()
  })
  return requests
}

/** Renders the whole app, as main.tsx does, at the last of the addresses. Back leads to the others. */
export function renderApp(...addresses: [string, ...string[]]) {
  return renderAppWith(createMemoryHistory({ initialEntries: addresses }))
}

/** Starts the backend in this state, and opens the whole app at the address. */
export const openApp = (initial?: Parameters<typeof startBackend>[0], address = '/') => ({
  ...startBackend(initial),
  ...renderApp(address),
})

/** Whether a page loads itself again, and how often one has. */
export const loading = { isUnderWay: false, times: 0 }

/**
 * Renders the whole app on the given history, for example the browser's. If the page loads itself again, the app begins
 * anew, and what is returned has the new parts.
 */
export function renderAppWith(history: RouterHistory) {
  const app = { history, user: userEvent.setup(), ...load(history) }
  let isOver = false
  onTestFinished(() => {
    isOver = true
    end(app.queryClient)
  })
  vi.spyOn(window.location, 'reload').mockImplementation(() => {
    const leave = new Event('beforeunload', { cancelable: true })
    window.dispatchEvent(leave)
    if (leave.defaultPrevented) throw new Error('The browser asks before it loads the page again.')
    if (loading.isUnderWay) return
    loading.isUnderWay = true
    loading.times += 1
    setImmediate(() => {
      loading.isUnderWay = false
      if (isOver) return
      app.unmount()
      end(app.queryClient)
      window.dispatchEvent(new Event('pagehide'))
      Object.assign(app, load(history))
    })
  })
  return app
}

function load(history: RouterHistory) {
  const queryClient = createQueryClient({ retryDelayMs: 0 })
  const router = createAppRouter(queryClient, history)
  const view = render(
    <StrictMode>
      <RouterProvider router={router} />
    </StrictMode>,
  )
  return { ...view, queryClient, router }
}

/** A call that still hangs at the end of its page must not log its timeout later. */
function end(queryClient: QueryClient): void {
  queryClient.getQueryCache().config = {}
  queryClient.getMutationCache().config = {}
  queryClient.clear()
}

// A page that ends makes no call any more, and gets no answer. The backend lets a browser keep each answer.
beforeEach(() => {
  const cache = new Map<string, Response>()
  loading.isUnderWay = false
  window.sessionStorage.clear()
  const own = Object.getOwnPropertyDescriptor(globalThis, 'fetch') as PropertyDescriptor
  const send = globalThis.fetch
  const value: typeof fetch = async (...call) => {
    const { times, isUnderWay } = loading
    if (isUnderWay) return new Promise(() => {})
    const [request] = call
    const address =
      request instanceof Request && request.method === 'GET' && request.cache !== 'no-store'
        ? request.url
        : ''
    const asked = cache.get(address)?.clone() ?? send(...call)
    const [answer] = await Promise.allSettled([asked])
    if (times !== loading.times) return new Promise(() => {})
    if (answer.status === 'rejected') throw answer.reason
    if (address !== '' && answer.value.ok) cache.set(address, answer.value.clone())
    return answer.value
  }
  Object.defineProperty(globalThis, 'fetch', { ...own, value })
  onTestFinished(() => void Object.defineProperty(globalThis, 'fetch', own))
})

/** Opens the app with the browser's own history, at its address if there is no other one. */
export function openInBrowser(address?: string) {
  if (address !== undefined) window.history.replaceState(null, '', address)
  // As at the beginning of each page.
  window.dispatchEvent(new Event('pageshow'))
  const history = createBrowserHistory()
  onTestFinished(() => history.destroy())
  return renderAppWith(history)
}

export function makeQueryClient(): QueryClient {
  const queryClient = createQueryClient({ retryDelayMs: 0 })
  onTestFinished(() => end(queryClient))
  return queryClient
}

/** Makes the tab visible again, as far as the page can tell. */
export function lookAgain(): void {
  act(() => {
    document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
  })
}

/**
 * What another tab of this browser says: who the person is now, or null if the backend does not say; or who has saved
 * rules. Resolves when the tabs have heard it.
 */
export async function hearFromOtherTab(said: string | null | { saved: string }): Promise<void> {
  const [other, listener] = [1, 2].map(() => new BroadcastChannel('dealbell-person'))
  const heard = new Promise((resolve) => listener?.addEventListener('message', resolve))
  other?.postMessage(said)
  await heard
  other?.close()
  listener?.close()
}

/** The user leaves the page, and comes back to it as it was: out of the browser's back-forward cache. */
export async function comeOutOfCache(): Promise<void> {
  const happen = (...events: [EventTarget, Event][]) =>
    act(() => {
      for (const [target, event] of events) target.dispatchEvent(event)
    })
  happen(
    [window, new Event('pagehide')],
    [document, new Event('visibilitychange', { bubbles: true })],
  )
  // A browser shows the page first, and says later that it was kept.
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
  happen([window, Object.assign(new Event('pageshow'), { persisted: true })])
}

/** Reports to the page that the browser went offline or online. */
export function setOnline(isOnline: boolean): void {
  vi.spyOn(navigator, 'onLine', 'get').mockReturnValue(isOnline)
  act(() => {
    window.dispatchEvent(new Event(isOnline ? 'online' : 'offline'))
  })
}

/** Records the page's text after each change from here on. */
export function recordTexts(): string[] {
  const texts: string[] = []
  new MutationObserver(() => texts.push(document.body.textContent ?? '')).observe(document.body, {
    subtree: true,
    childList: true,
    characterData: true,
  })
  return texts
}
