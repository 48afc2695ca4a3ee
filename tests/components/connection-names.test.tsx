import { screen, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { beforeEach, expect, test } from 'vitest'
import { server } from '../msw/server.ts'
import { renderApp, startBackend } from '../render.tsx'

const row = async (name: string) => {
  const button = await screen.findByRole('button', { name: new RegExp(`onnect ${name}$`) })
  return within(button.closest('li') as HTMLElement)
}

beforeEach(() => {
  startBackend()
})

function answerStatus(provider: string, status: object) {
  server.use(http.get(`*/api/${provider}/status`, () => HttpResponse.json(status)))
}

test('a connected service shows its account or workspace, and the channel', async () => {
  answerStatus('hubspot', { connected: true, account: 'acme.example' })
  answerStatus('slack', { connected: true, account: 'Acme', channel: '#deals' })
  renderApp('/')
  expect((await row('HubSpot')).getByRole('status')).toHaveTextContent(/Connected · acme\.example$/)
  expect((await row('Slack')).getByRole('status')).toHaveTextContent(/Connected · Acme · #deals$/)
})

test('a broken connection shows why and since when, and the rules stay', async () => {
  // At ten o'clock in the reader's time zone.
  const brokenAt = new Date(2026, 10, 20, 10).toISOString()
  answerStatus('hubspot', { connected: true })
  answerStatus('slack', {
    connected: false,
    account: 'Acme',
    reason: 'Slack says that the access was revoked (token_revoked).',
    since: brokenAt,
  })
  server.use(
    http.get('*/api/notifications/rules', () => HttpResponse.json({ rules: ['deal-closed'] })),
  )
  renderApp('/')
  const slack = await row('Slack')
  expect(
    slack.getByText(/Needs to be connected again: Slack says that the access was revoked/),
  ).toBeVisible()
  const since = slack.getByText('November 20, 2026 at 10:00 AM')
  expect(since).toHaveAttribute('datetime', brokenAt)
  expect(since.parentElement).toHaveTextContent(/\. Since November 20, 2026 at 10:00 AM\.$/)
  expect(slack.getByRole('button', { name: 'Connect Slack' })).toBeEnabled()
  expect(await screen.findByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
})

test('the row of the CRM says that a former account still sends, also after a disconnect', async () => {
  const notice =
    'Messages about deals of acme.example still go to Slack. To stop them, connect acme.example again and disconnect it.'
  const formerAccount = 'acme.example'
  answerStatus('hubspot', { connected: true, account: 'new.example', formerAccount })
  answerStatus('slack', { connected: false })
  const { user } = renderApp('/')
  expect((await row('HubSpot')).getByText(notice)).toBeVisible()
  expect((await row('Slack')).queryByText(notice)).not.toBeInTheDocument()
  await user.click(screen.getByRole('button', { name: 'Disconnect HubSpot' }))
  await screen.findByRole('button', { name: 'Connect HubSpot' })
  expect((await row('HubSpot')).getByText(notice)).toBeVisible()
})
