import { screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, openApp, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { accountItem, button, stageBox } from './dashboard.ts'

test('a sign-out that fails changes nothing here, nor does one of all other browsers, whose result replaces the failure', async () => {
  const { calls, user } = openApp({ connected: both(), features: ['sessions'] })
  server.use(http.delete('*/api/session', withStatus(409), { once: true }))
  await user.click(await accountItem(user, 'Sign out of this browser'))
  const result = await screen.findByText('❌ Failed to sign out, try again.')
  takeLog()
  await waitFor(() => expect(screen.getByRole('button', { name: 'Account' })).toHaveFocus())
  await user.click(await accountItem(user, 'Sign out of all other browsers'))
  await waitFor(() => expect(result).toHaveTextContent(/^Signed out of all other browsers\.$/))
  await waitFor(() => expect(screen.getByRole('button', { name: 'Account' })).toHaveFocus())
  expect(calls('DELETE')).toEqual(['DELETE /api/session', 'DELETE /api/session?others=true'])
  expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
})

test.each([['ann'], [undefined]])(
  'while the server is away, the menu of %s stays, with what is ticked and connected, and signs out when the server is back',
  async (person) => {
    const { handlers, state, user } = openApp({
      person,
      connected: both(),
      features: ['sessions'],
    })
    await user.click(await stageBox())
    const item = await accountItem(user, 'Sign out of this browser')
    server.use(http.all('*/api/*', () => HttpResponse.error()))
    await user.click(item)
    await screen.findByText('❌ Failed to sign out, try again.')
    await settle()
    expect(await button('Disconnect Slack')).toBeVisible()
    expect(await stageBox()).toBeChecked()
    takeLog()
    const again = await accountItem(user, 'Sign out of this browser')
    server.resetHandlers(...handlers)
    await user.click(again)
    expect(await screen.findByText(/^Signed out\. Connect HubSpot/)).toHaveFocus()
    expect(state.connected.size).toBe(0)
  },
)

test('who has no session has no such menu', async () => {
  openApp({ person: 'nobody', features: ['sessions', 'preview'], connected: new Set(['hubspot']) })
  await screen.findAllByText(/^Would have sent/)
  expect(screen.queryByRole('button', { name: 'Account' })).not.toBeInTheDocument()
})

test('a sign-out that the backend refuses says why in its own sentence', async () => {
  const { user } = openApp({ connected: both(), features: ['sessions'] })
  const error = { code: 'limited', message: 'Too many calls. Wait a minute.' }
  server.use(http.delete('*/api/session', () => HttpResponse.json({ error }, { status: 429 })))
  await user.click(await accountItem(user, 'Sign out of all other browsers'))
  await screen.findByText('❌ Failed to sign out. Too many calls. Wait a minute.')
  takeLog()
})
