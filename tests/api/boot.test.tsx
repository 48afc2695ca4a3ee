import { screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { unknown } from 'valibot'
import type { HtmlTagDescriptor as Tag } from 'vite'
import { afterEach, expect, test, vi } from 'vitest'
import { boot as bootScript } from '../../build/boot.ts'
import { parseConfig } from '../../src/parse-config.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, lookAgain, renderApp, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

// The boot script starts calls, and the app takes their responses.

/** Runs the boot script at an address, with what a build with these settings writes into its attributes. */
async function boot(address: string, settings = {}) {
  const { transformIndexHtml } = bootScript(parseConfig(settings))
  const { handler } = transformIndexHtml as { handler: (...given: unknown[]) => Tag[] }
  const bundle = ['/src/boot.ts', '/react-dom/client.js'].map((facadeModuleId) => ({
    type: 'chunk',
    facadeModuleId,
  }))
  const [{ attrs = {} } = {}] = handler('', { bundle })
  const script = document.createElement('script')
  for (const [name, value] of Object.entries(attrs)) {
    if (name.startsWith('data-')) script.setAttribute(name, String(value))
  }
  window.history.replaceState(null, '', address)
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

test.each(['/', '/contact', '/slack/callback'])(
  'at %s, the boot script starts calls that the app takes all, and makes no call twice',
  async (address) => {
    const { calls } = startBackend({ connected: both() })
    await boot(address)
    expect(document.head.querySelector('link[rel=modulepreload]')).not.toBeNull()
    await settle()
    const started = calls()
    expect(started.length).toBeGreaterThan(address === '/' ? 1 : 0)
    renderApp(address)
    await screen.findByText('Need Help?')
    await settle()
    expect(globalThis.startedCalls?.size).toBe(0)
    expect(calls()).toEqual(started)
    takeLog()
    if (address !== '/') return
    // What is asked later is a new call.
    lookAgain()
    await waitFor(() => expect(calls('GET /api/hubspot/status')).toHaveLength(2))
  },
)

test('a health check that failed before the app started is repeated by a new call', async () => {
  const { calls } = startBackend()
  server.use(http.get('*/health', () => HttpResponse.error(), { once: true }))
  await boot('/contact')
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
  const settings = {
    VITE_API_URL: 'https://api.example.test/dealbell/',
    VITE_CRM_NAME: 'Pipedrive',
    VITE_CHAT_NAME: 'Microsoft Teams',
  }
  for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value)
  const { calls } = startBackend({ providers: ['pipedrive', 'microsoft-teams'] })
  await boot('/', settings)
  const started = [...(globalThis.startedCalls?.keys() ?? [])]
  const { getJson } = await import('../../src/api/client.ts')
  const paths = started.map((address) => address.replace(settings.VITE_API_URL, ''))
  expect(paths).toEqual(expect.arrayContaining(['health', 'api/pipedrive/status']))
  await Promise.all(paths.map((path) => getJson(path, unknown())))
  expect(calls()).toHaveLength(started.length)
  expect(globalThis.startedCalls?.size).toBe(0)
})
