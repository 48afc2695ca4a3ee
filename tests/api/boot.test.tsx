import { screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { afterEach, expect, test, vi } from 'vitest'
import { healthAnswer } from '../../contract/endpoints.ts'
import { settle } from '../clock.ts'
import { openingCalls } from '../components/dashboard.ts'
import { dashboardCalls } from '../e2e/dashboard-calls.ts'
import { server } from '../msw/server.ts'
import { both, lookAgain, renderApp, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

// The boot script starts calls, and the app takes their responses.

/** Runs the boot script in the page of the dashboard. Without `dashboardCalls`, in that of another address. */
async function boot(calls: string, dashboardCalls?: readonly string[]) {
  window.history.replaceState(null, '', dashboardCalls ? '/' : '/contact')
  const script = document.createElement('script')
  Object.assign(script.dataset, { calls, dashboardCalls: dashboardCalls?.join(' ') })
  vi.spyOn(document, 'currentScript', 'get').mockReturnValue(script)
  vi.resetModules()
  await import('../../src/boot.ts')
}
afterEach(() => {
  globalThis.startedCalls = undefined
  globalThis.personChannel?.close()
  globalThis.personChannel = undefined
  document.head.replaceChildren()
})

test('the app takes every response once, and every later call is a new one', async () => {
  const { calls } = startBackend({ connected: both() })
  await boot('/health', dashboardCalls)
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

test('the calls of another backend and of other providers are taken, too', async () => {
  vi.stubEnv('VITE_API_URL', 'https://api.example.test/dealbell/')
  vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
  const { calls } = startBackend({ providers: ['pipedrive', 'slack'] })
  await boot('https://api.example.test/dealbell/health', [
    'https://api.example.test/dealbell/api/pipedrive/status',
  ])
  const { getJson } = await import('../../src/api/client.ts')
  const { connectionStatusAnswer } = await import('../../contract/endpoints.ts')
  expect(await getJson('/health', healthAnswer)).toEqual({ status: 'ok' })
  expect(await getJson('/api/pipedrive/status', connectionStatusAnswer)).toEqual({
    connected: false,
  })
  expect(calls()).toHaveLength(2)
  expect(globalThis.startedCalls?.size).toBe(0)
})
