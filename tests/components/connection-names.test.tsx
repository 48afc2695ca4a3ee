import { screen, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, onTestFinished, test, vi } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { openApp } from '../render.tsx'

const row = async (name: string) => {
  const button = await screen.findByRole('button', { name: new RegExp(`onnect ${name}$`) })
  return within(button.closest('li') as HTMLElement)
}

function answerStatus(provider: string, status: object) {
  server.use(http.get(`*/api/${provider}/status`, () => HttpResponse.json(status)))
}

test.each([
  ['2026-11-20T12:00:00Z', '#deals (as of November 20, 2026)'],
  ['some day', '#deals'],
])('a channel whose name is known as of %s is shown as %s', async (channelAsOf, words) => {
  openApp()
  answerStatus('slack', { connected: true, account: 'Acme', channel: '#deals', channelAsOf })
  expect((await row('Slack')).getByText(`Acme · ${words}`)).toBeVisible()
})

test.each([
  ['2026-11-21', 'today, 10:00 AM'],
  ['2026-11-19', 'November 19, 2026, 10:00 AM'],
])('a connection that broke on %s says in red when, why and what to do', async (day, words) => {
  vi.useFakeTimers({ now: new Date('2026-11-21T23:00'), toFake: ['Date'] })
  onTestFinished(() => {
    vi.useRealTimers()
  })
  // At ten o'clock in the reader's time zone.
  const since = new Date(`${day}T10:00`).toISOString()
  const reason = 'Slack says that the channel is archived.'
  openApp({ features: ['activity'] })
  answerStatus('hubspot', { connected: false, reason: 'HubSpot says that it is gone.' })
  answerStatus('slack', { connected: false, account: 'Acme', reason, since })
  const { parentElement: shown } = await screen.findByText('Not connected since')
  expect(shown).toHaveTextContent(
    `Not connected since ${words}: ${reason} Connect again, or choose another channel.`,
  )
  expect(shown).toHaveClass('text-bad')
  expect((await row('Slack')).getByText(words)).toHaveAttribute('datetime', since)
  const hubspot = await row('HubSpot')
  hubspot.getByText('Not connected: HubSpot says that it is gone. Connect again.')
})

test('a broken connection that works again shows so by itself', async () => {
  stopClock()
  openApp()
  answerStatus('slack', { connected: false, reason: 'Slack says that the channel is archived.' })
  await settle()
  expect(screen.getByRole('button', { name: 'Connect Slack' })).toBeVisible()
  answerStatus('slack', { connected: true })
  await pass(15_000)
  expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
})
