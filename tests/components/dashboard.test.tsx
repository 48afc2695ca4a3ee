import { fireEvent, screen, waitFor, within } from '@testing-library/react'
import { delay, HttpResponse, http } from 'msw'
import { describe, expect, test, vi } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, recordTexts, renderApp, setOnline, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

const both = () => new Set(['hubspot', 'slack'])

describe('opening the dashboard', () => {
  test('requests health, both statuses and the rules at the same time, once each', async () => {
    const { calls } = startBackend()
    server.use(http.all('*', () => delay('infinite')))
    renderApp('/')
    await settle()
    expect(calls().sort()).toEqual([
      'GET /api/hubspot/status',
      'GET /api/notifications/rules',
      'GET /api/slack/status',
      'GET /health',
    ])
  })

  test('requests nothing twice after all answers have arrived', async () => {
    const { calls } = startBackend({ connected: both() })
    renderApp('/')
    await screen.findByRole('button', { name: 'Disconnect HubSpot' })
    await settle()
    expect(calls()).toHaveLength(4)
  })

  test('sends credentials with every call', async () => {
    startBackend({ connected: both() })
    const fetched = vi.spyOn(globalThis, 'fetch')
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('checkbox', { name: /deal stage changes/ }))
    await user.click(screen.getByRole('button', { name: 'Save' }))
    await screen.findByText('✅ Rules saved successfully!')
    await user.click(screen.getByRole('button', { name: 'Disconnect Slack' }))
    await screen.findByRole('button', { name: 'Connect Slack' })
    const sent = fetched.mock.calls.map(([input]) => input as Request)
    expect(sent.map(({ method }) => method).sort()).toEqual([
      'DELETE',
      ...Array(4).fill('GET'),
      'POST',
    ])
    for (const { credentials } of sent) expect(credentials).toBe('include')
  })

  test.each(['hubspot', 'slack'])(
    "shows 'Loading dashboard...' until the status of %s has arrived too",
    async (last) => {
      startBackend({ connected: both() })
      const answer = Promise.withResolvers<void>()
      server.use(
        http.get(`*/api/${last}/status`, async () => {
          await answer.promise
          return HttpResponse.json({ connected: true })
        }),
      )
      renderApp('/')
      const loading = await screen.findByText('Loading dashboard...')
      expect(loading).toHaveAttribute('role', 'status')
      await settle()
      expect(loading).toBeVisible()
      expect(screen.queryByRole('button')).not.toBeInTheDocument()
      expect(screen.queryByRole('checkbox')).not.toBeInTheDocument()
      expect(screen.queryByText('Connections required')).not.toBeInTheDocument()
      expect(screen.getByRole('heading', { level: 1 })).toBeVisible()
      answer.resolve()
      expect(await screen.findByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
      expect(screen.queryByText('Loading dashboard...')).not.toBeInTheDocument()
    },
  )

  test('requests a status once, even if the other one is slow', async () => {
    stopClock()
    const { calls } = startBackend({ connected: both() })
    server.use(
      http.get('*/api/slack/status', async () => {
        await delay(8000)
        return HttpResponse.json({ connected: true })
      }),
    )
    renderApp('/')
    await settle()
    await pass(8100)
    expect(screen.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
    expect(calls()).toHaveLength(4)
  })

  test('requests a status once, even if the health check is slow', async () => {
    stopClock()
    const { calls } = startBackend({ connected: both() })
    server.use(
      http.get('*/health', async () => {
        await delay(8000)
        return HttpResponse.json({ status: 'ok' })
      }),
    )
    renderApp('/')
    await settle()
    await pass(8100)
    expect(screen.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
    expect(calls()).toHaveLength(4)
  })

  test('has the three sections, the last of them a disabled box', async () => {
    startBackend()
    renderApp('/')
    expect(await screen.findByRole('region', { name: 'Connections' })).toBeVisible()
    expect(screen.getByRole('region', { name: 'Notification Rules' })).toBeVisible()
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
    startBackend({ connected: new Set(connected) })
    renderApp('/')
    const rows = within(await screen.findByRole('region', { name: 'Connections' }))
    for (const [id, name] of [
      ['hubspot', 'HubSpot'],
      ['slack', 'Slack'],
    ] as const) {
      const isConnected = connected.includes(id)
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

  test.each([
    ['a 500', () => new HttpResponse(null, { status: 500 }), 2, 'answered with an error (500)'],
    ['a 401', () => new HttpResponse(null, { status: 401 }), 1, 'answered with an error (401)'],
    ['a dropped connection', () => HttpResponse.error(), 2, 'could not be reached'],
    ['HTML', () => HttpResponse.html('<p>Hi</p>'), 1, 'could not be understood'],
    ['no field', () => HttpResponse.json({}), 1, 'could not be understood'],
    ["'true'", () => HttpResponse.json({ connected: 'true' }), 1, 'could not be understood'],
    ['1', () => HttpResponse.json({ connected: 1 }), 1, 'could not be understood'],
    ['null', () => HttpResponse.json({ connected: null }), 1, 'could not be understood'],
  ])(
    'that is %s counts as not connected: one line in the log, no flicker, no loop',
    async (_name, answer, tries, reason) => {
      const { calls } = startBackend({ connected: both() })
      server.use(http.get('*/api/hubspot/status', answer))
      const texts = recordTexts()
      const { user } = renderApp('/')
      expect(await screen.findByRole('button', { name: 'Connect HubSpot' })).toBeVisible()
      expect(screen.getByText('Connections required')).toBeVisible()
      expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
      await user.click(screen.getByRole('checkbox', { name: /deal stage changes/ }))
      await settle()
      expect(calls('GET /api/hubspot/status')).toHaveLength(tries)
      expect(calls('GET /api/slack/status')).toHaveLength(1)
      const isLoading = texts.map((text) => text.includes('Loading dashboard...'))
      expect(isLoading).toContain(true)
      expect(isLoading.slice(isLoading.indexOf(true)).filter(comesBack)).toEqual([])
      const log = takeLog()
      expect(log).toEqual([
        expect.stringMatching(/^Loading the HubSpot connection status failed: /),
      ])
      expect(log[0]).toContain(reason)
    },
  )

  test('that fails again at a refetch does not flicker', async () => {
    const { calls } = startBackend({ connected: both() })
    server.use(http.get('*/status', () => new HttpResponse(null, { status: 500 })))
    renderApp('/')
    expect(await screen.findByRole('button', { name: 'Connect HubSpot' })).toBeVisible()
    await settle()
    expect(calls()).toHaveLength(6)
    const texts = recordTexts()
    lookAgain()
    await waitFor(() => expect(calls()).toHaveLength(10))
    await settle()
    expect(calls()).toHaveLength(10)
    expect(texts.filter((text) => text.includes('Loading'))).toEqual([])
    expect(screen.getByRole('button', { name: 'Connect HubSpot' })).toBeVisible()
    expect(takeLog()).toHaveLength(4)
  })

  test('stays when a refetch fails', async () => {
    startBackend({ connected: both() })
    renderApp('/')
    await screen.findByRole('button', { name: 'Disconnect HubSpot' })
    server.use(http.get('*/status', () => HttpResponse.error()))
    lookAgain()
    await waitFor(() => expect(takeLog().length).toBeGreaterThan(0))
    await settle()
    expect(screen.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
    expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
    takeLog()
  })

  test('is fetched again when the tab becomes visible, and shows what another tab has connected', async () => {
    const { state, calls } = startBackend()
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('checkbox', { name: /deal stage changes/ }))
    for (const id of both()) state.connected.add(id)
    const texts = recordTexts()
    lookAgain()
    expect(await screen.findByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
    expect(await screen.findByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
    expect(screen.queryByText('Connections required')).not.toBeInTheDocument()
    expect(texts.filter((text) => text.includes('Loading'))).toEqual([])
    expect(calls('GET /api/slack/status')).toHaveLength(2)
    // The unsaved tick stays, and the rules are not fetched again.
    expect(screen.getByRole('checkbox', { name: /deal stage changes/ })).toBeChecked()
    expect(calls('GET /api/notifications/rules')).toHaveLength(1)
  })

  test('is fetched again when the network is back', async () => {
    const { state } = startBackend()
    renderApp('/')
    await screen.findByRole('button', { name: 'Connect Slack' })
    setOnline(false)
    state.connected.add('slack')
    setOnline(true)
    expect(await screen.findByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  })

  test('may have fields that the dashboard does not know', async () => {
    startBackend()
    server.use(
      http.get('*/api/slack/status', () =>
        HttpResponse.json({ connected: true, workspace: 'Acme', channel: null }),
      ),
    )
    renderApp('/')
    expect(await screen.findByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  })
})

describe('Connect', () => {
  test.each([
    ['HubSpot', '/api/hubspot/auth'],
    ['Slack', '/api/slack/auth'],
  ])('sends the browser to the authorization of %s, without a call', async (name, address) => {
    const { calls } = startBackend()
    const assign = vi.spyOn(window.location, 'assign').mockImplementation(() => {})
    const { user } = renderApp('/')
    const button = await screen.findByRole('button', { name: `Connect ${name}` })
    await settle()
    const before = calls().length
    await user.click(button)
    await settle()
    expect(assign.mock.calls).toEqual([[address]])
    expect(calls()).toHaveLength(before)
  })
})

describe('Disconnect', () => {
  test.each([
    ['HubSpot', 'hubspot', 'Slack'],
    ['Slack', 'slack', 'HubSpot'],
  ])('of %s switches its button, and keeps the focus on it', async (name, id, other) => {
    const { state, requests, calls } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('button', { name: `Disconnect ${name}` }))
    expect(await screen.findByRole('button', { name: `Connect ${name}` })).toHaveFocus()
    expect(screen.getByRole('button', { name: `Disconnect ${other}` })).toBeVisible()
    expect(screen.getByText('Connections required')).toBeVisible()
    expect(state.connected).not.toContain(id)
    expect(calls('DELETE')).toEqual([`DELETE /api/${id}/disconnect`])
    expect(requests.find(({ method }) => method === 'DELETE')?.body).toBe('')
    await settle()
    expect(calls('GET')).toHaveLength(4)
  })

  test.each([
    ['an empty 200', () => new HttpResponse(null, { status: 200 })],
    ['JSON', () => HttpResponse.json({ connected: true })],
    ['HTML', () => HttpResponse.html('<p>Bye</p>')],
    ['201', () => new HttpResponse('', { status: 201 })],
  ])('succeeds with %s, which it does not read', async (_name, answer) => {
    startBackend({ connected: both() })
    server.use(http.delete('*/disconnect', answer))
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('button', { name: 'Disconnect Slack' }))
    expect(await screen.findByRole('button', { name: 'Connect Slack' })).toBeVisible()
  })

  test.each([
    ['a 500', () => new HttpResponse(null, { status: 500 })],
    [
      'a 503 with Retry-After',
      () => new HttpResponse(null, { status: 503, headers: { 'Retry-After': '3600' } }),
    ],
    ['a 404', () => new HttpResponse(null, { status: 404 })],
    ['a dropped connection', () => HttpResponse.error()],
  ])('that fails with %s is tried once and only logged', async (_name, answer) => {
    const { calls } = startBackend({ connected: both() })
    server.use(http.delete('*/disconnect', answer))
    const { user } = renderApp('/')
    const before = await screen.findByRole('button', { name: 'Disconnect Slack' })
    const text = document.body.textContent
    await user.click(before)
    await waitFor(() => expect(calls('DELETE')).toHaveLength(1))
    await settle()
    expect(document.body.textContent).toBe(text)
    expect(calls('DELETE')).toHaveLength(1)
    expect(takeLog()).toEqual([expect.stringMatching(/^Disconnecting Slack failed: /)])
  })

  test('can be tried again after it failed', async () => {
    startBackend({ connected: both() })
    server.use(http.delete('*/disconnect', () => HttpResponse.error(), { once: true }))
    const { user } = renderApp('/')
    const button = await screen.findByRole('button', { name: 'Disconnect Slack' })
    await user.click(button)
    await waitFor(() => expect(takeLog()).toHaveLength(1))
    await settle()
    // A later click, not a double click.
    button.click()
    expect(await screen.findByRole('button', { name: 'Connect Slack' })).toBeVisible()
  })

  test('sends one DELETE for a double click, and for two clicks in one task', async () => {
    const { calls } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    await user.dblClick(await screen.findByRole('button', { name: 'Disconnect Slack' }))
    await screen.findByRole('button', { name: 'Connect Slack' })
    const hubspot = screen.getByRole('button', { name: 'Disconnect HubSpot' })
    hubspot.click()
    hubspot.click()
    await screen.findByRole('button', { name: 'Connect HubSpot' })
    expect(calls('DELETE')).toEqual([
      'DELETE /api/slack/disconnect',
      'DELETE /api/hubspot/disconnect',
    ])
  })

  test('ignores a second click of a double click when the button already reads Connect', async () => {
    startBackend({ connected: both() })
    const assign = vi.spyOn(window.location, 'assign').mockImplementation(() => {})
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('button', { name: 'Disconnect Slack' }))
    const connect = await screen.findByRole('button', { name: 'Connect Slack' })
    connect.dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 2 }))
    expect(assign).not.toHaveBeenCalled()
    connect.dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 1 }))
    expect(assign).toHaveBeenCalledOnce()
  })

  test('of one service waits for that of the other', async () => {
    const { calls } = startBackend({ connected: both() })
    const held = Promise.withResolvers<void>()
    server.use(
      http.delete('*/api/slack/disconnect', async () => {
        await held.promise
        return undefined
      }),
    )
    const { user } = renderApp('/')
    await user.click(await screen.findByRole('button', { name: 'Disconnect Slack' }))
    const other = screen.getByRole('button', { name: 'Disconnect HubSpot' })
    await user.click(other)
    expect(other).toHaveAttribute('aria-disabled', 'true')
    await settle()
    expect(calls('DELETE')).toEqual(['DELETE /api/slack/disconnect'])
    held.resolve()
    expect(await screen.findByRole('button', { name: 'Connect HubSpot' })).toBeVisible()
    expect(screen.getByRole('button', { name: 'Connect Slack' })).toBeVisible()
    expect(calls('DELETE')).toHaveLength(2)
  })

  test('that gets no answer loads the status again, because the server may have disconnected', async () => {
    stopClock()
    const { state } = startBackend({ connected: both() })
    server.use(
      http.delete('*/api/slack/disconnect', () => {
        state.connected.delete('slack')
        return delay('infinite')
      }),
    )
    renderApp('/')
    await settle()
    fireEvent.click(screen.getByRole('button', { name: 'Disconnect Slack' }))
    await settle()
    await pass(9990)
    expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
    await pass(10)
    expect(screen.getByRole('button', { name: 'Connect Slack' })).toBeVisible()
    expect(takeLog()).toEqual(['Disconnecting Slack failed: The server took too long to answer'])
  })

  test('is not undone by a status that was requested earlier and answered later', async () => {
    const { calls } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    const button = await screen.findByRole('button', { name: 'Disconnect Slack' })
    const stale = Promise.withResolvers<void>()
    server.use(
      http.get('*/api/slack/status', async () => {
        await stale.promise
        return HttpResponse.json({ connected: true })
      }),
    )
    lookAgain()
    await waitFor(() => expect(calls('GET /api/slack/status')).toHaveLength(2))
    await user.click(button)
    expect(await screen.findByRole('button', { name: 'Connect Slack' })).toBeVisible()
    stale.resolve()
    await settle()
    expect(screen.getByRole('button', { name: 'Connect Slack' })).toBeVisible()
  })

  test('while offline fails at once, and is not sent later', async () => {
    const { calls } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    const button = await screen.findByRole('button', { name: 'Disconnect Slack' })
    setOnline(false)
    server.use(http.delete('*/disconnect', () => HttpResponse.error(), { once: true }))
    await user.click(button)
    await waitFor(() => expect(takeLog()).toHaveLength(1))
    setOnline(true)
    await settle()
    expect(calls('DELETE')).toHaveLength(1)
    expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  })
})

/** Whether a text that had disappeared is back. */
function comesBack(value: boolean, index: number, all: boolean[]): boolean {
  return value && index > 0 && all[index - 1] === false
}
