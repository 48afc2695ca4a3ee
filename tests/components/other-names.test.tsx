import { act, fireEvent, screen } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { beforeEach, expect, test, vi } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { renderApp, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

// Must run before the imports, which read the settings.
vi.hoisted(() => {
  vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
  vi.stubEnv('VITE_CHAT_NAME', 'Teams')
})

const providers = ['pipedrive', 'teams']
let assign = vi.fn()
beforeEach(() => {
  assign = vi.spyOn(window.location, 'assign').mockImplementation(() => {})
})

const expectNoOtherName = () => {
  expect(document.title + document.documentElement.outerHTML).not.toMatch(/hubspot|slack/i)
}

test('the dashboard requests, names and connects the services of the settings', async () => {
  const { calls } = startBackend({ providers })
  const { user } = renderApp('/')
  expect(await screen.findByText(/connect both Pipedrive and Teams/)).toBeVisible()
  await user.click(screen.getByRole('button', { name: 'Save' }))
  expect(
    screen.getByText('❌ Please connect both Pipedrive and Teams before saving rules.'),
  ).toBeVisible()
  await user.click(screen.getByRole('button', { name: 'Connect Pipedrive' }))
  await user.click(screen.getByRole('button', { name: 'Connect Teams' }))
  expect(assign.mock.calls).toEqual([['/api/pipedrive/auth'], ['/api/teams/auth']])
  expectNoOtherName()
  expect(calls().sort()).toEqual([
    'GET /api/notifications/rules',
    'GET /api/pipedrive/status',
    'GET /api/teams/status',
    'GET /health',
  ])
})

test('saving and disconnecting work', async () => {
  const { calls } = startBackend({ providers, connected: new Set(providers) })
  const { user } = renderApp('/')
  await user.click(await screen.findByRole('checkbox', { name: /deal stage changes/ }))
  await user.click(screen.getByRole('button', { name: 'Save' }))
  expect(await screen.findByText('✅ Rules saved successfully!')).toBeVisible()
  await user.click(screen.getByRole('button', { name: 'Disconnect Teams' }))
  expect(await screen.findByRole('button', { name: 'Connect Teams' })).toBeVisible()
  await user.click(screen.getByRole('button', { name: 'Disconnect Pipedrive' }))
  expect(await screen.findByRole('button', { name: 'Connect Pipedrive' })).toBeVisible()
  expect(calls('DELETE')).toEqual([
    'DELETE /api/teams/disconnect',
    'DELETE /api/pipedrive/disconnect',
  ])
  expectNoOtherName()
})

test.each([
  ['pipedrive', 'Pipedrive'],
  ['teams', 'Teams'],
])('/%s/callback is the return from %s', async (id, name) => {
  const { calls } = startBackend({ providers, codes: new Set(['abc']) })
  renderApp(`/${id}/callback?code=abc`)
  expect(await screen.findByText(`Handling ${name} OAuth Callback...`)).toBeVisible()
  expect(await screen.findByRole('button', { name: `Disconnect ${name}` })).toBeVisible()
  expect(calls()).toContain(`GET /api/${id}/callback?code=abc`)
  expectNoOtherName()
})

test.each([
  ['pipedrive', 'Pipedrive', '/connect/pipedrive'],
  ['teams', 'Teams', '/'],
])('/%s/callback without a code misses the %s code and leads to %s', async (id, name, onward) => {
  stopClock()
  startBackend({ providers })
  const { history } = renderApp(`/${id}/callback`)
  await settle()
  expect(screen.getByRole('alert').textContent).toBe(
    `${name} connection failed: Missing ${name} code`,
  )
  expectNoOtherName()
  await pass(3000)
  expect(history.location.pathname).toBe(onward)
  takeLog()
})

test('an unexpected failure names the service of the settings', async () => {
  startBackend({ providers })
  const really = globalThis.fetch
  vi.spyOn(globalThis, 'fetch').mockImplementation((input, init) =>
    (input as Request).url.includes('/callback') ? Promise.reject('no') : really(input, init),
  )
  renderApp('/teams/callback?code=abc')
  expect((await screen.findByRole('alert')).textContent).toBe(
    'Teams connection failed: Teams OAuth failed unexpectedly',
  )
  takeLog()
})

test('failures are logged with the names of the settings', async () => {
  startBackend({ providers, connected: new Set(providers) })
  server.use(
    http.get('*/status', () => new HttpResponse(null, { status: 403 }), { once: true }),
    http.delete('*/disconnect', () => new HttpResponse(null, { status: 403 })),
  )
  renderApp('/')
  fireEvent.click(await screen.findByRole('button', { name: 'Disconnect Teams' }))
  await act(settle)
  expect(takeLog()).toEqual([
    expect.stringContaining('the Pipedrive connection status'),
    expect.stringContaining('Disconnecting Teams'),
  ])
})

test('/connect/pipedrive offers to connect again', async () => {
  startBackend({ providers })
  const { user } = renderApp('/connect/pipedrive')
  await user.click(await screen.findByRole('button', { name: 'Connect Pipedrive' }))
  expect(assign.mock.calls).toEqual([['/api/pipedrive/auth']])
  expectNoOtherName()
})

test.each([
  '/hubspot/callback?code=abc',
  '/slack/callback?code=abc',
  '/connect/hubspot',
  '/connect/teams',
])('%s is an unknown address', async (address) => {
  const { calls } = startBackend({ providers })
  renderApp(address)
  expect(await screen.findByRole('alert')).toHaveTextContent('Something went wrong.')
  await settle()
  expect(calls()).toEqual(['GET /health'])
})
