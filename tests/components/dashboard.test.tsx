import { screen, waitFor, within } from '@testing-library/react'
import { HttpResponse } from 'msw'
import { describe, expect, test } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { both, hold, lookAgain, openApp, recordTexts, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { button, openingCalls, stageBox } from './dashboard.ts'

describe('opening the dashboard', () => {
  test.each(['hubspot', 'slack'])(
    "shows 'Loading dashboard...' until the status of %s has arrived too",
    async (last) => {
      openApp({ connected: both() })
      const answer = hold('get', `*/api/${last}/status`)
      const loading = await screen.findByText('Loading dashboard...')
      expect(loading).toHaveAttribute('role', 'status')
      await settle()
      expect(loading).toBeVisible()
      expect(screen.queryByRole('button')).not.toBeInTheDocument()
      expect(screen.queryByRole('checkbox')).not.toBeInTheDocument()
      expect(screen.queryByText('Connections required')).not.toBeInTheDocument()
      expect(screen.getByRole('heading', { level: 1 })).toBeVisible()
      answer()
      expect(await button('Disconnect HubSpot')).toBeVisible()
      expect(screen.queryByText('Loading dashboard...')).not.toBeInTheDocument()
    },
  )

  test('requests health, both statuses and the rules at the same time, once each', async () => {
    stopClock()
    const { calls } = openApp({ connected: both() })
    const answer = hold('all', '*')
    await settle()
    expect(calls().sort()).toEqual(openingCalls)
    await pass(8000)
    answer()
    await settle()
    expect(screen.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
    expect(calls().sort()).toEqual(openingCalls)
  })

  test('has the three sections, the last of them a disabled box', async () => {
    openApp()
    expect(await screen.findByRole('region', { name: 'Connections' })).toBeVisible()
    expect(screen.getByRole('region', { name: 'Notification Rules' })).toBeVisible()
    expect(screen.getByText('Choose which HubSpot deal events Slack reports.')).toBeVisible()
    const future = screen.getByRole('region', { name: 'AI rules (future)' })
    const box = within(future).getByRole('textbox')
    expect(box).toBeDisabled()
    expect(box).toHaveAttribute('placeholder', expect.stringMatching(/deal over 50k closes/))
  })
})

describe('a connection status', () => {
  test.each([
    { connected: [], warned: true },
    { connected: ['hubspot'], warned: true },
    { connected: ['slack'], warned: true },
    { connected: ['hubspot', 'slack'], warned: false },
  ])('is shown for $connected', async ({ connected, warned }) => {
    openApp({ connected: new Set(connected) })
    const rows = within(await screen.findByRole('region', { name: 'Connections' }))
    for (const name of ['HubSpot', 'Slack']) {
      const isConnected = connected.includes(name.toLowerCase())
      const button = rows.getByRole('button', {
        name: `${isConnected ? 'Disconnect' : 'Connect'} ${name}`,
      })
      expect(button).toHaveTextContent(isConnected ? /^Disconnect$/ : /^Connect$/)
      const row = rows.getByText(name).closest('li') as HTMLElement
      // A screen reader announces a change together with the service's name.
      expect(within(row).getByRole('status').textContent).toBe(
        `${name}${isConnected ? 'Connected' : 'Not connected'}`,
      )
      // A green check or a red cross stands beside the words.
      expect(row.querySelector('svg')).toHaveClass(isConnected ? 'text-good' : 'text-bad')
    }
    if (!warned) {
      expect(screen.queryByText('Connections required')).not.toBeInTheDocument()
      return
    }
    const warning = screen.getByText('Connections required').closest('[role=status]')
    expect(warning?.firstElementChild).toHaveClass('bg-warning')
    expect(warning).toHaveTextContent(
      'Please connect both HubSpot and Slack so that notifications work.',
    )
  })

  const unclear = 'sent an answer that could not be understood'
  test.each([
    ['a 500', withStatus(500), 2, 'answered with an error (500)'],
    ['a dropped connection', () => HttpResponse.error(), 2, 'could not be reached'],
    ['HTML', () => HttpResponse.html('<p>Hi</p>'), 1, unclear],
    // tests/contract/answers.test.ts has more such answers.
    ["'true'", () => HttpResponse.json({ connected: 'true' }), 1, `${unclear} (connected)`],
  ])(
    'that is %s counts as not connected: one line in the log, no flicker, no loop',
    async (_name, answer, tries, reason) => {
      const { calls, user } = openApp({ connected: both() })
      const arrive = hold('get', '*/api/hubspot/status', answer)
      await screen.findByText('Loading dashboard...')
      const texts = recordTexts()
      arrive()
      expect(await button('Connect HubSpot')).toBeVisible()
      expect(screen.getByText('Connections required')).toBeVisible()
      expect(await button('Disconnect Slack')).toBeVisible()
      await user.click(await stageBox())
      await settle()
      expect(calls('GET /api/hubspot/status')).toHaveLength(tries)
      expect(calls('GET /api/slack/status')).toHaveLength(1)
      const isLoading = texts.map((text) => text.includes('Loading dashboard...'))
      const again = isLoading.filter((value, index) => value && isLoading[index - 1] === false)
      expect(again).toEqual([])
      const action = 'Loading the HubSpot connection status'
      expect(takeLog()).toEqual([`${action} failed: The server ${reason}`])
    },
  )
})

describe('Disconnect', () => {
  test.each([
    ['HubSpot', 'Slack'],
    ['Slack', 'HubSpot'],
  ])('of %s switches its button, and keeps the focus on it', async (name, other) => {
    const { state, requests, calls, user } = openApp({ connected: both() })
    await user.click(await button(`Disconnect ${name}`))
    expect(await button(`Connect ${name}`)).toHaveFocus()
    expect(await button(`Disconnect ${other}`)).toBeVisible()
    expect(screen.getByText('Connections required')).toBeVisible()
    expect([...state.connected]).toEqual([other.toLowerCase()])
    expect(calls('DELETE')).toEqual([`DELETE /api/${name.toLowerCase()}/disconnect`])
    expect(requests.find(({ method }) => method === 'DELETE')?.body).toBe('')
    await settle()
    expect(calls('GET')).toHaveLength(4)
  })

  test('is not undone by a status that was requested earlier and answered later', async () => {
    const { calls, user } = openApp({ connected: both() })
    const disconnect = await button('Disconnect Slack')
    const answer = hold('get', '*/api/slack/status', () => HttpResponse.json({ connected: true }))
    lookAgain()
    await waitFor(() => expect(calls('GET /api/slack/status')).toHaveLength(2))
    await user.click(disconnect)
    expect(await button('Connect Slack')).toBeVisible()
    answer()
    await settle()
    expect(await button('Connect Slack')).toBeVisible()
  })
})
