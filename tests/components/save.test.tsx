import { act, cleanup, screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test, vi } from 'vitest'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, endlessBody, openApp, openInBrowser, startBackend } from '../render.tsx'
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

test.each([
  ['409 with JSON', () => HttpResponse.json({ error: { message: 'No' } }, { status: 409 })],
  ['500 whose body never ends', () => new HttpResponse(endlessBody(), { status: 500 })],
  ['a reset connection', () => HttpResponse.error()],
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

  test('belong to whoever the browser of nobody becomes, also over a refusal and another service', async () => {
    vi.spyOn(window.location, 'assign').mockImplementation(() => {})
    const { state } = startBackend({ person: 'nobody', codes: new Set(['abc', 'def']) })
    let { user } = openInBrowser('/')
    await user.click(await stageBox())
    const come = (address: string) => {
      cleanup()
      ;({ user } = openInBrowser(address))
    }
    await user.click(await button('Connect Slack'))
    // The server begins a session.
    state.person = 'nobody-1'
    come('/slack/callback?code=abc')
    expect(await screen.findByText('Unsaved changes')).toBeVisible()
    await user.click(await button('Connect HubSpot'))
    come('/hubspot/callback?error=access_denied')
    await screen.findByRole('alert')
    // Kim is known from another browser.
    const rules = ['deal-closed', 'a-rule-of-tomorrow']
    Object.assign(state, { person: 'kim', connected: both(), rules })
    come('/hubspot/callback?code=def')
    await waitFor(async () => expect(await closedBox()).toBeChecked())
    expect(await stageBox()).toBeChecked()
    await user.click(saveButton())
    await screen.findByText(saved)
    expect(state.rules).toEqual([...rules, 'deal-stage-changed'])
    takeLog()
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
