import { act, cleanup, screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test, vi } from 'vitest'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import {
  both,
  endlessBody,
  hearFromOtherTab,
  hold,
  lookAgain,
  openApp,
  openInBrowser,
  returnFromCache,
  startBackend,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'
import {
  button,
  closedBox,
  failed,
  holdSaving,
  messages,
  refused,
  rulesPath,
  saveButton,
  saved,
  stageBox,
  tickAndSave,
} from './dashboard.ts'

// The model (tests/components/model) has the rest: what is sent, how often, which message shows, what stays ticked and
// when the page asks before it is left, in any order.

test('without both connections, Save says so and makes no call', async () => {
  const { calls, user } = openApp({ connected: new Set(['hubspot']) })
  await stageBox()
  expect(messages()).toEqual([])
  await tickAndSave(user)
  const message = screen.getByText(refused)
  expect(message).toBeVisible()
  expect(message).toHaveAttribute('role', 'status')
  expect(saveButton()).toBeEnabled()
  expect(saveButton()).toHaveFocus()
  expect(await stageBox()).toBeChecked()
  await settle()
  expect(calls('POST')).toEqual([])
  await user.click(await closedBox())
  expect(messages()).toEqual([])
})

test.each([[['hubspot', 'slack']], [['slack', 'hubspot']]])(
  'without both connections, the message stays when one connection replaces the other: answers from %j',
  async (order) => {
    const { state, user } = openApp({ connected: new Set(['slack']) })
    await stageBox()
    await user.click(saveButton())
    state.connected = new Set(['hubspot'])
    const answers = order.map((id) => hold('get', `*/api/${id}/status`))
    lookAgain()
    for (const answer of answers) {
      answer()
      await settle()
    }
    expect(await button('Disconnect HubSpot')).toBeVisible()
    expect(await button('Connect Slack')).toBeVisible()
    expect(messages()).toEqual([refused])
  },
)

describe('saving', () => {
  test("sends the whole selection, shows a disabled 'Saving…', then the success", async () => {
    const { requests, calls, user } = openApp({ connected: both(), rules: ['deal-closed'] })
    const answer = holdSaving()
    await user.click(await stageBox())
    const button = saveButton()
    await user.click(button)
    expect(button).toBeDisabled()
    expect(button).toHaveTextContent(/^Saving…$/)
    expect(messages()).toEqual([])
    // A browser removes the focus from a disabled button. happy-dom does not, so do it here.
    const elsewhere = await closedBox()
    act(() => {
      elsewhere.focus()
      elsewhere.blur()
    })
    answer()
    const message = await screen.findByText(saved)
    expect(message).toHaveAttribute('role', 'status')
    expect(button).toBeEnabled()
    expect(button).toHaveTextContent(/^Save$/)
    // The focus is back on the button.
    expect(button).toHaveFocus()
    expect(calls('POST')).toEqual(['POST /api/notifications/rules'])
    expect(requests.at(-1)?.body).toBe('{"rules":["deal-closed","deal-stage-changed"]}')
    // The saved rules are known, so they are not fetched again.
    await settle()
    expect(calls('GET /api/notifications/rules')).toHaveLength(1)
  })

  test('does not cancel a status that is on its way, after which the success is over', async () => {
    const { state, user } = openApp({ connected: both() })
    const answer = holdSaving()
    await tickAndSave(user)
    const arrive = hold('get', '*/api/slack/status')
    lookAgain()
    answer()
    await screen.findByText(saved)
    state.connected.delete('slack')
    arrive()
    await button('Connect Slack')
    expect(messages()).toEqual([])
  })

  test('leaves the focus where the user has moved it during the save', async () => {
    const { user } = openApp({ connected: both() })
    const answer = holdSaving()
    await tickAndSave(user)
    const other = await closedBox()
    act(() => other.focus())
    answer()
    await screen.findByText(saved)
    expect(other).toHaveFocus()
  })

  test.each([
    ['broken JSON', () => new HttpResponse('{"rules":', { status: 200 })],
    ['a body that never ends', () => new HttpResponse(endlessBody())],
  ])('succeeds with %s, which it does not read', async (_name, answer) => {
    const { user } = openApp({ connected: both() })
    server.use(http.post(rulesPath, answer))
    await tickAndSave(user)
    expect(await screen.findByText(saved)).toBeVisible()
    expect(await stageBox()).toBeChecked()
  })
})

const forAnHour = { 'Retry-After': '3600' }
test.each([
  ['409 with JSON', () => HttpResponse.json({ error: { message: 'No' } }, { status: 409 })],
  ['429 for an hour', () => new HttpResponse(null, { status: 429, headers: forAnHour })],
  ['500 whose body never ends', () => new HttpResponse(endlessBody(), { status: 500 })],
  ['a reset connection', () => HttpResponse.error()],
  ['a redirect to nowhere', withStatus(304)],
])(
  'a save that fails with %s shows one message until the selection changes, keeps the ticks and enables the button',
  async (_name, answer) => {
    const { calls, user } = openApp({ connected: both(), rules: ['deal-closed'] })
    server.use(http.post(rulesPath, answer))
    await tickAndSave(user)
    const message = await screen.findByText(failed)
    expect(message).toHaveAttribute('role', 'status')
    expect(messages()).toEqual([failed])
    expect(saveButton()).toBeEnabled()
    expect(saveButton()).toHaveFocus()
    expect(await stageBox()).toBeChecked()
    await settle()
    expect(calls('POST')).toHaveLength(1)
    expect(takeLog()).toEqual([expect.stringMatching(/^Saving rules failed: /)])
    await user.click(await closedBox())
    expect(messages()).toEqual([])
    expect(await stageBox()).toBeChecked()
  },
)

test('unsaved ticks make the page ask before the user goes back, and staying keeps them', async () => {
  startBackend()
  const confirm = vi.spyOn(window, 'confirm').mockReturnValue(false)
  window.history.replaceState(null, '', '/contact')
  window.history.pushState(null, '', '/')
  const { user, router } = openInBrowser('/')
  await user.click(await stageBox())
  act(() => window.history.back())
  await waitFor(() => expect(confirm).toHaveBeenCalledOnce())
  expect(confirm.mock.calls[0]?.[0]).toMatch(/not saved/)
  await settle()
  expect(router.state.location.pathname).toBe('/')
  expect(await stageBox()).toBeChecked()
  // The dashboard itself is no other screen.
  await user.click(screen.getByRole('link', { name: 'Dealbell' }))
  await settle()
  expect(confirm).toHaveBeenCalledOnce()
  expect(await stageBox()).toBeChecked()
})

describe('ticks that are not saved when the user clicks Connect', () => {
  const unload = () => {
    const event = new Event('beforeunload', { cancelable: true })
    window.dispatchEvent(event)
    return event.defaultPrevented
  }

  /** Ticks a rule, unticks a saved one, clicks Connect, and comes back as this person. */
  async function connectWithTicks(before: string | undefined, after: string | undefined) {
    vi.spyOn(window.location, 'assign').mockImplementation(() => {})
    const { state, calls } = startBackend({
      person: before,
      connected: new Set(['slack']),
      rules: ['deal-closed'],
      codes: new Set(['abc']),
    })
    const { user, unmount } = openInBrowser('/')
    await user.click(await stageBox())
    await user.click(await closedBox())
    expect(unload()).toBe(true)
    await user.click(await button('Connect HubSpot'))
    const asks = unload()
    unmount()
    state.person = after
    return { calls, state, asks, back: () => openInBrowser('/hubspot/callback?code=abc') }
  }

  test.each([['ann'], ['nobody']])(
    'are there again, unsaved, after %s has connected, and no question is asked',
    async (before) => {
      const { calls, state, asks, back } = await connectWithTicks(before, 'ann')
      expect(asks).toBe(false)
      const { user } = back()
      expect(await screen.findByText('Unsaved changes')).toBeVisible()
      expect(await stageBox()).toBeChecked()
      expect(await closedBox()).not.toBeChecked()
      expect(unload()).toBe(true)
      expect(calls('POST')).toEqual([])
      expect(window.sessionStorage).toHaveLength(0)
      await user.click(saveButton())
      await screen.findByText(saved)
      expect(state.rules).toEqual(['deal-stage-changed'])
    },
  )

  test.each([
    ['are no longer offered', 'ann', '["ann",[],["rule-of-yesterday"]]'],
    ['belong to another person', 'bob', undefined],
    ['are damaged', 'ann', '{"person":"ann","ticked":"all"}'],
    ['are damaged in one part', 'ann', '["ann","",["deal-stage-changed"]]'],
    ['are no JSON', 'ann', '{'],
  ])('are dropped when they %s', async (_why, after, stored) => {
    const { back } = await connectWithTicks('ann', after)
    if (stored !== undefined) window.sessionStorage.setItem('dealbell-draft', stored)
    back()
    expect(await closedBox()).toBeChecked()
    expect(await stageBox()).not.toBeChecked()
    expect(screen.queryByText('Unsaved changes')).not.toBeInTheDocument()
    expect(window.sessionStorage).toHaveLength(0)
  })

  test('are again only those of the page, if the browser brings it back without an answer', async () => {
    vi.spyOn(window.location, 'assign').mockImplementation(() => {})
    startBackend({ person: 'ann', connected: new Set(['slack']) })
    const { user } = openInBrowser('/')
    await user.click(await stageBox())
    await user.click(await button('Connect HubSpot'))
    expect(unload()).toBe(false)
    returnFromCache()
    expect(unload()).toBe(true)
    expect(await stageBox()).toBeChecked()
    // The user stops the browser, and ticks on.
    await user.click(await button('Connect HubSpot'))
    await user.click(await closedBox())
    expect(unload()).toBe(true)
  })

  test.each([
    [['Connect HubSpot', 'Allow HubSpot']],
    [['Connect HubSpot', 'Back out of the cache', 'Connect HubSpot', 'Allow HubSpot']],
    [['Connect HubSpot', 'Back out of the cache', 'Connect HubSpot at once', 'Allow HubSpot']],
    [['Connect HubSpot', 'load the page', 'Connect HubSpot', 'Allow HubSpot']],
    [['Connect HubSpot', 'Deny HubSpot', 'Allow HubSpot']],
    [['Connect HubSpot', 'Deny HubSpot', 'load the page', 'Connect HubSpot', 'Allow HubSpot']],
    [['Connect HubSpot', 'tick before the rules load', 'Connect HubSpot', 'Allow HubSpot']],
    [['Connect Slack', 'Allow Slack', 'Connect HubSpot', 'Allow HubSpot']],
    [['Connect HubSpot', 'Allow elsewhere', 'Back out of the cache']],
    [['Allow elsewhere', 'hear of it']],
    [['Allow elsewhere', 'hear that the answer is lost']],
  ])('belong to whoever the browser of nobody becomes: %j', async (steps) => {
    vi.spyOn(window.location, 'assign').mockImplementation(() => {})
    const { handlers, state } = startBackend({ person: 'nobody', codes: new Set(['abc']) })
    let { user } = openInBrowser('/')
    await user.click(await stageBox())
    const load = (address: string) => {
      cleanup()
      ;({ user } = openInBrowser(address))
    }
    const connect = async (name: string) => {
      await button(`Connect ${name}`)
      await settle()
      expect(screen.getByText('Unsaved changes')).toBeVisible()
      await user.click(screen.getByRole('button', { name: `Connect ${name}` }))
      // The server begins a session.
      state.person = 'nobody-1'
    }
    // Kim is known from another browser.
    const becomeKim = () => {
      const rules = ['deal-closed', 'a-rule-of-tomorrow']
      Object.assign(state, { person: 'kim', connected: both(), rules })
    }
    const take: Record<string, () => unknown> = {
      'Connect HubSpot': () => connect('HubSpot'),
      'Connect Slack': () => connect('Slack'),
      'Allow HubSpot': () => {
        becomeKim()
        state.codes.add('def')
        load('/hubspot/callback?code=def')
      },
      'Allow Slack': () => load('/slack/callback?code=abc'),
      'Allow elsewhere': becomeKim,
      'Deny HubSpot': () => {
        load('/hubspot/callback?error=access_denied')
        return screen.findByRole('alert')
      },
      'load the page': () => load('/'),
      'tick before the rules load': async () => {
        server.use(http.get(rulesPath, withStatus(403)))
        load('/')
        for (const _twice of [1, 2]) await user.click(await closedBox())
        server.resetHandlers(...handlers)
        lookAgain()
      },
      'Back out of the cache': returnFromCache,
      'Connect HubSpot at once': () => {
        act(() => screen.getByRole('button', { name: 'Connect HubSpot' }).click())
        // The answers of the page arrive while the browser leaves it.
        return settle()
      },
      'hear of it': () => hearFromOtherTab('kim'),
      'hear that the answer is lost': () => hearFromOtherTab(null),
    }
    for (const step of steps) await take[step]?.()
    await waitFor(async () => expect(await closedBox()).toBeChecked())
    expect(await stageBox()).toBeChecked()
    expect(await screen.findByText('Unsaved changes')).toBeVisible()
    await user.click(saveButton())
    await screen.findByText(saved)
    expect(state.rules).toEqual(['deal-closed', 'a-rule-of-tomorrow', 'deal-stage-changed'])
    takeLog()
  })

  test('of nobody are dropped by a sign-out', async () => {
    const { state } = startBackend({ person: 'nobody-1', connected: new Set(['slack']) })
    const { user } = openInBrowser('/')
    await user.click(await stageBox())
    Object.assign(state, { person: 'nobody', connected: new Set() })
    await hearFromOtherTab('nobody')
    await button('Connect Slack')
    expect(await stageBox()).not.toBeChecked()
  })

  test.each([
    ['with a backend that names nobody', undefined, false],
    ['without a storage', 'ann', true],
  ])('are lost %s, so the browser asks', async (_how, person, isDenied) => {
    if (isDenied) {
      vi.spyOn(window, 'sessionStorage', 'get').mockImplementation(() => {
        throw new DOMException('Denied', 'SecurityError')
      })
    }
    const { asks, back } = await connectWithTicks(person, person)
    expect(asks).toBe(true)
    back()
    expect(await closedBox()).toBeChecked()
  })
})
