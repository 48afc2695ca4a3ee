import { screen, waitFor, within } from '@testing-library/react'
import { http } from 'msw'
import { expect, test } from 'vitest'
import { server } from '../msw/server.ts'
import { both, renderApp, startBackend, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'

const signedIn = () =>
  startBackend({ connected: both(), rules: ['deal-closed'], features: ['sessions'] })

test('signing out of all other browsers changes nothing in this one', async () => {
  const { calls } = signedIn()
  const { user } = renderApp('/')
  await user.click(await screen.findByRole('button', { name: 'Sign out of all other browsers' }))
  expect(await screen.findByText('Signed out of all other browsers.')).toBeVisible()
  expect(calls('DELETE')).toEqual(['DELETE /api/session?others=true'])
  expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  expect(screen.getByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
})

test('a failure says so and changes nothing; the next result replaces it', async () => {
  const { calls } = signedIn()
  server.use(http.delete('*/api/session', withStatus(500), { once: true }))
  const { user } = renderApp('/')
  await user.click(await screen.findByRole('button', { name: 'Sign out of this browser' }))
  const failure = await screen.findByText('❌ Failed to sign out, try again.')
  expect(takeLog()).toEqual([
    'Signing out of this browser failed: The server answered with an error (500)',
  ])
  expect(await screen.findByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  await user.click(screen.getByRole('button', { name: 'Sign out of all other browsers' }))
  await waitFor(() => expect(failure).toHaveTextContent(/^Signed out of all other browsers\.$/))
  expect(calls('DELETE')).toHaveLength(2)
})

test('is offered on the dashboard alone, after everything else', async () => {
  signedIn()
  const { user } = renderApp('/contact')
  await screen.findByRole('heading', { name: 'Contact Support' })
  expect(screen.queryByText(/sign out/i)).not.toBeInTheDocument()
  await user.click(screen.getByRole('link', { name: 'Dealbell' }))
  await screen.findByRole('button', { name: 'Sign out of this browser' })
  const buttons = within(screen.getByRole('main')).getAllByRole('button')
  expect(buttons.slice(-2).map((button) => button.textContent)).toEqual([
    'Sign out of this browser',
    'Sign out of all other browsers',
  ])
})
