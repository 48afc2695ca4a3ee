import { screen, waitFor, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import { settle } from '../clock.ts'
import type { ActivityBackend } from '../msw/activity.ts'
import { server } from '../msw/server.ts'
import { openApp } from '../render.tsx'
import { takeLog } from '../setup.ts'

/** Opens the dashboard of a backend that answers this to a test message. */
const open = (test?: ActivityBackend['test'], connected = ['hubspot', 'slack']) =>
  openApp({
    connected: new Set(connected),
    rules: ['deal-closed'],
    features: ['activity', 'test-message'],
    ...(test && { activity: { test } }),
  })
const sendButton = () => screen.findByRole('button', { name: 'Send a test message' })
const sent = { state: 'sent', channel: '#sales-floor', reason: null, nextTryAt: null } as const
const waits = { ...sent, state: 'waiting' } as const
const at = '2026-11-22T12:05:00.000Z'
const time = new Date(at).toLocaleTimeString([], { timeStyle: 'short' })

const refusal = { status: 409, code: 'not_connected', message: 'Connect both. <b>' } as const

test.each<[ActivityBackend['test'], string]>([
  [sent, 'Sent to #sales-floor.'],
  [{ ...sent, channel: null }, 'Sent.'],
  [{ ...sent, reason: 'It is accepted' }, 'Sent to #sales-floor. It is accepted.'],
  [{ ...waits, reason: 'It is busy', nextTryAt: at }, `Waiting: It is busy, next try at ${time}.`],
  [waits, 'Waiting.'],
  [refusal, 'Connect both. <b>'],
])('the answer %j to a test message reads %j, as text', async (answer, text) => {
  const { calls, user } = open(answer)
  const button = await sendButton()
  const row = button.closest('li') as HTMLElement
  expect(within(row).getByText('Slack')).toBeVisible()
  // A screen reader announces only a text that appears in an existing region.
  const result = within(row).getAllByRole('status').at(-1)
  expect(result).toBeEmptyDOMElement()
  await user.click(button)
  await waitFor(() => expect(result?.textContent).toBe(text))
  expect(button).toHaveFocus()
  expect(calls('POST')).toEqual(['POST /api/notifications/test'])
  takeLog()
})

test('without an answer, it says that the message may still arrive, until the next try', async () => {
  const { user } = open()
  server.use(http.post('*/test', HttpResponse.error, { once: true }))
  const button = await sendButton()
  await user.click(button)
  const result = await screen.findByText(
    'The server could not be reached. The test message may still arrive.',
  )
  takeLog()
  expect(button).toHaveFocus()
  await user.click(button)
  await waitFor(() => expect(result).toHaveTextContent(/^Sent to #sales-floor\.$/))
})

test('a refusal that breaks the connection shows at once what to do, and moves the focus there', async () => {
  const { state, user } = open()
  const button = await sendButton()
  state.activity.test = { status: 502, code: 'not_sent', message: 'Slack says no.' }
  state.connected.delete('slack')
  await user.click(button)
  await waitFor(() => expect(button).not.toBeInTheDocument())
  expect(screen.getByRole('button', { name: 'Connect Slack' })).toHaveFocus()
  takeLog()
})

test.each([['hubspot'], ['slack']])(
  'connected to %j only, the dashboard offers no test message',
  async (connected) => {
    open(undefined, [connected])
    await screen.findByText('No message yet.')
    await settle()
    expect(screen.queryByText(/test message/)).not.toBeInTheDocument()
  },
)
