import { screen } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import { renderApp, startBackend } from '../render.tsx'

// Must run before the imports, which read the settings.
vi.hoisted(() => {
  vi.stubEnv('VITE_API_URL', 'https://api.example.test/dealbell/')
  vi.stubEnv('VITE_CONTACT_FORM_URL', 'https://forms.example.test/f/1?embed=1')
})

const both = new Set(['hubspot', 'slack'])

test('every call goes to the other origin, with credentials', async () => {
  startBackend({ connected: new Set(both), codes: new Set(['abc']) })
  const fetched = vi.spyOn(globalThis, 'fetch')
  const { user } = renderApp('/hubspot/callback?code=abc')
  await user.click(await screen.findByRole('checkbox', { name: /deal stage changes/ }))
  await user.click(screen.getByRole('button', { name: 'Save' }))
  await screen.findByText('✅ Rules saved successfully!')
  await user.click(screen.getByRole('button', { name: 'Disconnect HubSpot' }))
  await screen.findByRole('button', { name: 'Connect HubSpot' })

  const sent = fetched.mock.calls.map(([input]) => input as Request)
  expect(sent.map(({ method, url }) => `${method} ${url}`).sort()).toEqual([
    'DELETE https://api.example.test/dealbell/api/hubspot/disconnect',
    'GET https://api.example.test/dealbell/api/hubspot/callback?code=abc',
    'GET https://api.example.test/dealbell/api/hubspot/status',
    'GET https://api.example.test/dealbell/api/notifications/rules',
    'GET https://api.example.test/dealbell/api/slack/status',
    'GET https://api.example.test/dealbell/health',
    'POST https://api.example.test/dealbell/api/notifications/rules',
  ])
  for (const { credentials } of sent) expect(credentials).toBe('include')
})

test.each(['/', '/connect/hubspot'])('Connect at %s goes to the other origin', async (address) => {
  startBackend()
  const assign = vi.spyOn(window.location, 'assign').mockImplementation(() => {})
  const { user } = renderApp(address)
  await user.click(await screen.findByRole('button', { name: 'Connect HubSpot' }))
  expect(assign.mock.calls).toEqual([['https://api.example.test/dealbell/api/hubspot/auth']])
})

test('a contact form of another origin keeps its origin, which it needs to work', async () => {
  startBackend()
  renderApp('/contact')
  const form = await screen.findByTitle('Contact form')
  expect(form).toHaveAttribute('src', 'https://forms.example.test/f/1?embed=1')
  expect(form.getAttribute('sandbox')?.split(' ').toSorted()).toEqual([
    'allow-forms',
    'allow-same-origin',
    'allow-scripts',
  ])
  expect(screen.getByRole('link', { name: /open the contact form/ })).toHaveAttribute(
    'href',
    'https://forms.example.test/f/1?embed=1',
  )
})
