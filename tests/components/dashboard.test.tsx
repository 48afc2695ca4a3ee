import { screen, waitFor, within } from '@testing-library/react'
import { HttpResponse } from 'msw'
import { expect, test } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { both, hold, lookAgain, openApp, recordTexts, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { button, openingCalls } from './dashboard.ts'

// The model (tests/components/model) has the rest: buttons, warnings, calls and the log, in any order.

test.each(['hubspot', 'slack'])(
  "the dashboard shows 'Loading dashboard...' until the status of %s has arrived too",
  async (last) => {
    openApp({ connected: both() })
    const answer = hold('get', `*/api/${last}/status`)
    const loading = await screen.findByText('Loading dashboard...')
    await settle()
    expect(loading).toBeVisible()
    expect(screen.queryByRole('button')).not.toBeInTheDocument()
    answer()
    expect(await button('Disconnect HubSpot')).toBeVisible()
    expect(loading).not.toBeInTheDocument()
  },
)

test('the dashboard requests health, both statuses and the rules at the same time, once each', async () => {
  stopClock()
  const { calls } = openApp({ connected: both() })
  const answer = hold('all', '*')
  await settle()
  expect(calls().sort()).toEqual(openingCalls)
  await pass(8000)
  answer()
  await settle()
  expect(screen.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
  expect(calls()).toHaveLength(openingCalls.length)
})

test('the dashboard has the three sections, the last of them a disabled box', async () => {
  openApp({ connected: new Set(['slack']) })
  const rows = within(await screen.findByRole('region', { name: 'Connections' }))
  for (const [name, words, colour] of [
    ['HubSpot', 'Not connected', 'text-bad'],
    ['Slack', 'Connected', 'text-good'],
  ] as const) {
    const row = rows.getByText(name).closest('li') as HTMLElement
    // A screen reader announces a change together with the service's name.
    expect(within(row).getByRole('status').textContent).toBe(`${name}${words}`)
    expect(row.querySelector('svg')).toHaveClass(colour)
  }
  const warning = screen.getByText('Connections required').closest('[role=status]')
  expect(warning?.firstElementChild).toHaveClass('bg-warning')
  expect(warning).toHaveTextContent('connect both HubSpot and Slack so that notifications work.')
  expect(screen.getByRole('region', { name: 'Notification Rules' })).toBeVisible()
  const future = screen.getByRole('region', { name: 'AI rules (future)' })
  const box = within(future).getByRole('textbox')
  expect(box).toBeDisabled()
  expect(box).toHaveAttribute('placeholder', expect.stringMatching(/deal over 50k closes/))
})

test('a status that fails does not show the loading text again', async () => {
  openApp({ connected: both() })
  const arrive = hold('get', '*/api/hubspot/status', withStatus(500))
  await screen.findByText('Loading dashboard...')
  const texts = recordTexts()
  arrive()
  expect(await button('Connect HubSpot')).toBeVisible()
  await settle()
  const first = texts.findIndex((text) => !text.includes('Loading dashboard...'))
  expect(texts.slice(first).join()).not.toContain('Loading dashboard...')
  takeLog()
})

test('a disconnect is not undone by a status that was requested earlier and answered later', async () => {
  const { calls, user } = openApp({ connected: both() })
  const disconnect = await button('Disconnect Slack')
  const answer = hold('get', '*/api/slack/status', () => HttpResponse.json({ connected: true }))
  lookAgain()
  await waitFor(() => expect(calls('GET /api/slack/status')).toHaveLength(2))
  await user.click(disconnect)
  expect(await button('Connect Slack')).toHaveFocus()
  answer()
  await settle()
  expect(await button('Connect Slack')).toBeVisible()
})
