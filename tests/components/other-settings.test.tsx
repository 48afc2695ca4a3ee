import { screen } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { hold, openApp } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { button, saved, stageBox } from './dashboard.ts'

// Must run before the imports, which read the settings.
vi.hoisted(() => {
  vi.stubEnv('VITE_API_URL', 'https://api.example.test/dealbell/')
  vi.stubEnv('VITE_CRM_NAME', 'Pipedrive')
  vi.stubEnv('VITE_CHAT_NAME', 'Microsoft Teams')
  vi.stubEnv('VITE_CONTACT_FORM_URL', 'https://forms.example.test/f/1?embed=1')
})

const providers = ['pipedrive', 'microsoft-teams']
const api = 'https://api.example.test/dealbell'

const expectNoOtherName = () => {
  expect(document.title + document.documentElement.outerHTML).not.toMatch(/hubspot|slack/i)
}

test('every call goes to the other origin, with credentials and the paths of the services', async () => {
  const fetched = vi.spyOn(globalThis, 'fetch')
  const { user } = openApp(
    { providers, connected: new Set(['microsoft-teams']), codes: new Set(['abc']) },
    '/pipedrive/callback?code=abc',
  )
  const answer = hold('get', '*/api/pipedrive/callback')
  expect(await screen.findByText('Handling Pipedrive OAuth Callback...')).toBeVisible()
  answer()
  await user.click(await stageBox())
  await user.click(await button('Save'))
  await screen.findByText(saved)
  for (const name of ['Microsoft Teams', 'Pipedrive']) {
    await user.click(await button(`Disconnect ${name}`))
    await button(`Connect ${name}`)
  }
  expectNoOtherName()

  const sent = fetched.mock.calls.map(([input]) => input as Request)
  expect(sent.map(({ method, url }) => `${method} ${url}`).sort()).toEqual([
    `DELETE ${api}/api/microsoft-teams/disconnect`,
    `DELETE ${api}/api/pipedrive/disconnect`,
    `GET ${api}/api/microsoft-teams/status`,
    `GET ${api}/api/notifications/rules`,
    `GET ${api}/api/pipedrive/callback?code=abc`,
    `GET ${api}/api/pipedrive/status`,
    `GET ${api}/health`,
    `POST ${api}/api/notifications/rules`,
  ])
  for (const { credentials } of sent) expect(credentials).toBe('include')
})

test('who installs the app in the CRM’s marketplace, so without a state, is led to Connect', async () => {
  stopClock()
  const { history } = openApp({ providers }, '/pipedrive/callback?code=abc')
  await settle()
  expect(screen.getByRole('alert')).toHaveTextContent(
    'Pipedrive connection failed: The server answered with an error (400)',
  )
  await pass(3000)
  expect(history.location.href).toBe('/connect/pipedrive')
  expect(screen.getByRole('button', { name: 'Connect Pipedrive' })).toBeVisible()
  takeLog()
})

test('the dashboard names and connects the services of the settings', async () => {
  const assign = vi.spyOn(window.location, 'assign').mockImplementation(() => {})
  const { user } = openApp({ providers })
  expect(await screen.findByText(/connect both Pipedrive and Microsoft Teams/)).toBeVisible()
  await user.click(await button('Save'))
  expect(
    screen.getByText('❌ Please connect both Pipedrive and Microsoft Teams before saving rules.'),
  ).toBeVisible()
  await user.click(await button('Connect Pipedrive'))
  await user.click(await button('Connect Microsoft Teams'))
  expect(assign.mock.calls).toEqual([
    [`${api}/api/pipedrive/auth`],
    [`${api}/api/microsoft-teams/auth`],
  ])
  expectNoOtherName()
})

test('a contact form of another origin keeps its origin, which it needs to work', async () => {
  openApp({}, '/contact')
  const form = await screen.findByTitle('Contact form')
  expect(form).toHaveAttribute('src', 'https://forms.example.test/f/1?embed=1')
  expect(form.getAttribute('sandbox')?.split(' ').toSorted()).toEqual([
    'allow-forms',
    'allow-same-origin',
    'allow-scripts',
  ])
})
