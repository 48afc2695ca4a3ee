import { screen, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, openApp } from '../render.tsx'

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
  const { textContent } = (await row('Slack')).getByRole('status')
  expect(textContent).toBe(`SlackConnected · Acme · ${words}`)
})

test.each([
  ['#deals', 'Open #deals'],
  [undefined, 'Open Slack'],
])('a stand-in whose channel is %s has the link %s', async (channel, name) => {
  openApp()
  const standIns = { slack: '/sandbox/slack' }
  server.use(http.get('*/health', () => HttpResponse.json({ status: 'ok', standIns })))
  answerStatus('slack', { connected: true, channel })
  expect(await screen.findByRole('link', { name })).toHaveAttribute('href', standIns.slack)
})

test('a connection of which messages may be late says so to everybody, but only while it is connected', async () => {
  const late = 'Changes in HubSpot may arrive up to an hour late.'
  const account = 'acme.example'
  openApp()
  answerStatus('hubspot', { connected: true, account, late })
  const sentence = await screen.findByText(late)
  expect(sentence.closest('[role="status"]')).toHaveTextContent(
    `HubSpotConnected · acme.example${late}`,
  )
  answerStatus('hubspot', { connected: false, account, late })
  lookAgain()
  expect(await screen.findByRole('button', { name: 'Connect HubSpot' })).toBeVisible()
  expect(sentence).not.toBeInTheDocument()
})

// A story of tests/e2e has what a connection says that broke today.
test('a connection that broke earlier says the day, in the time zone of the reader', async () => {
  const since = new Date('2026-01-02T10:00').toISOString()
  openApp()
  answerStatus('slack', { connected: false, reason: 'The channel is archived.', since })
  expect(await screen.findByText('January 2, 2026, 10:00 AM')).toHaveAttribute('datetime', since)
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
