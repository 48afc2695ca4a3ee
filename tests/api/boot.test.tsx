import { act, screen, waitFor } from '@testing-library/react'
import { delay, HttpResponse, http } from 'msw'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { endpoints, healthAnswer, rulesAnswer } from '../../contract/endpoints.ts'
import { call, getJson } from '../../src/api/client.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { openingCalls } from '../components/dashboard.ts'
import { dashboardCalls } from '../e2e/dashboard-calls.ts'
import { server } from '../msw/server.ts'
import {
  both,
  endlessBody,
  hearFromOtherTab,
  lookAgain,
  renderApp,
  startBackend,
} from '../render.tsx'
import { takeLog } from '../setup.ts'

// The boot script starts calls, and the app takes their responses.

const health = () => getJson(endpoints.health.path, healthAnswer)
const rules = () => getJson(endpoints.rules.path, rulesAnswer)

/** Runs the boot script in a page with links to these calls. Returns the signals that end the calls. */
async function boot(...addresses: string[]): Promise<AbortSignal[]> {
  document.head.replaceChildren(
    ...addresses.map((href) =>
      Object.assign(document.createElement('link'), { rel: 'boot', as: 'fetch', href }),
    ),
  )
  vi.resetModules()
  await import('../../src/boot.ts')
  return [...(globalThis.startedCalls?.values() ?? [])].map(({ abort }) => abort.signal)
}
afterEach(() => {
  globalThis.startedCalls = undefined
  globalThis.personChannel?.close()
  globalThis.personChannel = undefined
  document.head.replaceChildren()
})

test('the app takes every response once, and every later call is a new one', async () => {
  const { calls } = startBackend({ connected: both() })
  await boot('/health', ...dashboardCalls)
  renderApp('/')
  expect(await screen.findByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
  await settle()
  expect(calls().toSorted()).toEqual(openingCalls)

  lookAgain()
  await waitFor(() => expect(calls('GET /api/hubspot/status')).toHaveLength(2))
})

test('a health check that failed before the app started is repeated by a new call', async () => {
  const { calls } = startBackend()
  server.use(http.get('*/health', () => HttpResponse.error(), { once: true }))
  await boot('/health')
  await settle()
  const { user } = renderApp('/contact')
  expect(await screen.findByText('Backend service is unavailable.')).toBeVisible()
  expect(calls()).toEqual(['GET /health'])
  takeLog()

  await user.click(screen.getByRole('button', { name: 'Try again' }))
  expect(await screen.findByRole('heading', { name: 'Contact Support' })).toBeVisible()
  expect(calls()).toEqual(['GET /health', 'GET /health'])
})

test.each([
  ['of an analytics service', 'https://analytics.example/module.js', 'module'],
  ['that a proxy added', '/cdn-cgi/beacon.js', ''],
])('a failing script %s changes nothing, early or late', async (_whose, src, type) => {
  startBackend()
  const [ended] = await boot('/health')
  const fail = (attributes: object) => {
    const script = Object.assign(document.createElement('script'), attributes)
    document.body.append(script)
    onTestFinished(() => script.remove())
    script.dispatchEvent(new Event('error'))
  }
  fail({ src, type })
  expect(ended?.aborted).toBe(false)
  renderApp('/contact')
  const heading = await screen.findByRole('heading', { name: 'Contact Support' })
  fail({ src, type })
  expect(heading).toHaveTextContent('Contact Support')
})

test('what another tab says before the app starts ends the calls that the boot script has started', async () => {
  const { calls } = startBackend({ connected: both() })
  const signals = await boot('/health', ...dashboardCalls)
  await hearFromOtherTab('bob')
  await waitFor(() => expect(signals.every(({ aborted }) => aborted)).toBe(true))
  await settle()
  const before = calls().length
  renderApp('/')
  expect(await screen.findByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
  expect(calls().slice(before).toSorted()).toEqual(openingCalls)
})

test('if the main script does not load, the page shows an error and aborts the calls', async () => {
  startBackend()
  document.body.innerHTML =
    '<h1>Loading…</h1><script type="module" crossorigin src="/assets/index-1.js"></script>'
  onTestFinished(() => document.body.replaceChildren())
  const [ended] = await boot('/health')
  document.querySelector('body script')?.dispatchEvent(new Event('error'))
  expect(screen.getByRole('heading')).toHaveTextContent(
    'Something went wrong. Please try again later.',
  )
  expect(ended?.aborted).toBe(true)
})

test('a failed call that the app never makes is no error', async () => {
  startBackend()
  server.use(http.get('*/api/notifications/rules', () => HttpResponse.error()))
  const unhandled = vi.fn()
  process.on('unhandledRejection', unhandled)
  await boot('/api/notifications/rules')
  await settle()
  process.off('unhandledRejection', unhandled)
  expect(unhandled).not.toHaveBeenCalled()
})

test.each([
  ['an answer', () => delay('infinite')],
  ['the end of an answer', () => new HttpResponse(endlessBody())],
])('a call without %s fails 10 s after the app’s call', async (_what, answer) => {
  stopClock()
  startBackend()
  server.use(http.get('*/health', answer))
  const [ended] = await boot('/health')
  await pass(9000)
  const failure = expect(health()).rejects.toMatchObject({ kind: 'timeout' })
  await settle()
  await pass(9900)
  expect(ended?.aborted).toBe(false)
  await pass(100)
  await failure
  expect(ended?.aborted).toBe(true)
})

test('an answer that is older than a minute is dropped', async () => {
  stopClock()
  const { calls, state } = startBackend()
  const [ended] = await boot('/api/notifications/rules')
  await settle()
  state.rules = ['deal-closed']
  await pass(60_001)
  expect(await rules()).toEqual({ rules: ['deal-closed'] })
  expect(calls()).toHaveLength(2)
  expect(ended?.aborted).toBe(true)
})

test('a save takes no answer, and the next load is a new call', async () => {
  const { calls } = startBackend()
  await boot('/api/notifications/rules')
  await act(settle)
  await call('POST', endpoints.saveRules.path, { json: { rules: ['deal-closed'] } })
  expect(await rules()).toEqual({ rules: ['deal-closed'] })
  expect(calls().map((line) => line.split(' ')[0])).toEqual(['GET', 'POST', 'GET'])
})

test('the calls of another backend and of other providers are taken, too', async () => {
  vi.stubEnv('VITE_API_URL', 'https://api.example.test/dealbell/')
  vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
  const { calls } = startBackend({ providers: ['pipedrive', 'slack'] })
  await boot(
    'https://api.example.test/dealbell/health',
    'https://api.example.test/dealbell/api/pipedrive/status',
  )
  const { getJson } = await import('../../src/api/client.ts')
  const { connectionStatusAnswer } = await import('../../contract/endpoints.ts')
  expect(await getJson('/health', healthAnswer)).toEqual({ status: 'ok' })
  expect(await getJson('/api/pipedrive/status', connectionStatusAnswer)).toEqual({
    connected: false,
  })
  expect(calls()).toHaveLength(2)
  expect(globalThis.startedCalls?.size).toBe(0)
})
