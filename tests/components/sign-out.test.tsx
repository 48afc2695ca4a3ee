import { screen, waitFor, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { renderApp, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

const signedIn = (features?: string[]) =>
  startBackend({
    connected: new Set(['hubspot', 'slack']),
    rules: ['deal-closed'],
    ...(features && { features }),
  })

const ended = (calls: (start: string) => string[]) => calls('DELETE /api/session')

test.each([[undefined], [[]], [['other']]])(
  'a backend that lists %j is not asked to end sessions',
  async (features) => {
    const { calls } = signedIn(features)
    renderApp('/')
    expect(await screen.findByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
    expect(screen.queryByText(/sign out/i)).not.toBeInTheDocument()
    await settle()
    expect(calls().toSorted()).toEqual([
      'GET /api/hubspot/status',
      'GET /api/notifications/rules',
      'GET /api/slack/status',
      'GET /health',
    ])
  },
)

test('signing out of this browser shows nothing of the user any more', async () => {
  const { calls } = signedIn(['sessions'])
  const { user } = renderApp('/')
  await user.click(await screen.findByRole('checkbox', { name: /a deal stage changes/ }))
  const button = screen.getByRole('button', { name: 'Sign out of this browser' })
  const result = button.parentElement?.querySelector('[role=status]')
  await user.click(button)
  expect(await screen.findByText('Signed out of this browser.')).toBe(result)
  expect(ended(calls)).toEqual(['DELETE /api/session'])
  expect(await screen.findByRole('button', { name: 'Connect HubSpot' })).toBeVisible()
  expect(screen.getByRole('button', { name: 'Connect Slack' })).toBeVisible()
  expect(screen.getByText('Connections required')).toBeVisible()
  expect(await screen.findByRole('checkbox', { name: /signed or closed/ })).not.toBeChecked()
  // The draft is gone too.
  expect(screen.getByRole('checkbox', { name: /a deal stage changes/ })).not.toBeChecked()
  expect(screen.queryByText('Unsaved changes')).not.toBeInTheDocument()
  expect(button).toHaveFocus()
})

test('signing out of all other browsers changes nothing in this one', async () => {
  const { calls } = signedIn(['sessions'])
  const { user } = renderApp('/')
  await user.click(await screen.findByRole('button', { name: 'Sign out of all other browsers' }))
  expect(await screen.findByText('Signed out of all other browsers.')).toBeVisible()
  expect(ended(calls)).toEqual(['DELETE /api/session?others=true'])
  expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  expect(screen.getByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
})

test('a failure says so and changes nothing; the next result replaces it', async () => {
  const { calls } = signedIn(['sessions'])
  server.use(
    http.delete('*/api/session', () => new HttpResponse(null, { status: 500 }), { once: true }),
  )
  const { user } = renderApp('/')
  await user.click(await screen.findByRole('button', { name: 'Sign out of this browser' }))
  const failure = await screen.findByText('❌ Failed to sign out, try again.')
  expect(takeLog()).toEqual([
    'Signing out of this browser failed: The server answered with an error (500)',
  ])
  expect(await screen.findByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  await user.click(screen.getByRole('button', { name: 'Sign out of all other browsers' }))
  await waitFor(() => expect(failure).toHaveTextContent(/^Signed out of all other browsers\.$/))
  expect(ended(calls)).toHaveLength(2)
})

test('a double click makes one call', async () => {
  const { calls } = signedIn(['sessions'])
  const answer = Promise.withResolvers<void>()
  server.use(
    http.delete('*/api/session', async () => {
      await answer.promise
      return new HttpResponse(null, { status: 204 })
    }),
  )
  const { user } = renderApp('/')
  const button = await screen.findByRole('button', { name: 'Sign out of this browser' })
  await user.dblClick(button)
  expect(button).toHaveAttribute('aria-disabled', 'true')
  answer.resolve()
  await screen.findByText('Signed out of this browser.')
  expect(ended(calls)).toHaveLength(1)
})

test('is offered on the dashboard alone, after everything else', async () => {
  signedIn(['sessions'])
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
