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
  openApp,
  openInBrowser,
  startBackend,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'
import {
  accountItem,
  button,
  closedBox,
  failed,
  holdSaving,
  rulesPath,
  saveButton,
  saved,
  stageBox,
  tickAndSave,
} from './dashboard.ts'

// The model (tests/components/model) has the rest: what is sent, how often, which message shows, what stays ticked and
// when the page asks before it is left, in any order.

test.each([
  ['is back on Save', undefined],
  ['stays where the user has moved it', closedBox],
])('the button reads Saving… until the answer, and then the focus %s', async (_where, moveTo) => {
  const { user } = openApp({ connected: both() })
  const answer = holdSaving()
  await tickAndSave(user)
  const button = screen.getByRole('button', { name: 'Saving…' })
  expect(button).toBeDisabled()
  const other = await closedBox()
  // A browser removes the focus from a disabled button. happy-dom does not, so do it here.
  act(() => {
    other.focus()
    if (moveTo === undefined) other.blur()
  })
  answer()
  await screen.findByText(saved)
  expect(moveTo ? other : button).toHaveFocus()
})

test.each([
  ['200 and broken JSON', saved, () => new HttpResponse('{"rules":')],
  ['200 and a body that never ends', saved, () => new HttpResponse(endlessBody())],
  [
    '500 and a body that never ends',
    failed,
    () => new HttpResponse(endlessBody(), { status: 500 }),
  ],
])('a save whose answer is %s, which it does not read, says %s', async (_name, words, answer) => {
  const { user } = openApp({ connected: both() })
  server.use(http.post(rulesPath, answer))
  await tickAndSave(user)
  expect(await screen.findByText(words)).toBeVisible()
  takeLog()
})

const signIn = '<!DOCTYPE html><title>Sign in</title>'
const signInEnded = 'The sign-in in front of this page has probably ended'

test.each([
  ['204', saved, () => new HttpResponse(null, { status: 204 })],
  ['ok as text/html', saved, () => HttpResponse.html('ok')],
  ['a page with 502', failed, () => HttpResponse.html(signIn, { status: 502 })],
])('a save that gets %s says %s, and nothing of a sign-in', async (_name, words, answer) => {
  const { user } = openApp({ connected: both() })
  server.use(http.post(rulesPath, answer))
  await tickAndSave(user)
  expect(await screen.findByText(words)).toBeVisible()
  expect(screen.queryByText(signInEnded)).not.toBeInTheDocument()
  takeLog()
})

test.each([
  [200, signIn],
  [403, '\n<html lang="de">'],
])(
  'a save that gets %s with a page is not saved; the page names the sign-in, and loads again with the ticks',
  async (status, body) => {
    const { handlers, state, user } = openApp({ connected: both() })
    await user.click(await stageBox())
    server.use(http.all('*/api/*', () => HttpResponse.html(body, { status })))
    await user.click(saveButton())
    expect(await screen.findByText(failed)).toBeVisible()
    expect(await screen.findByText(signInEnded)).toBeVisible()
    expect(await button('Disconnect Slack')).toBeVisible()
    server.resetHandlers(...handlers)
    await user.click(await button('Load again'))
    await waitFor(() => expect(screen.queryByText(signInEnded)).not.toBeInTheDocument())
    expect(await screen.findByText('Unsaved changes')).toBeVisible()
    await user.click(saveButton())
    expect(await screen.findByText(saved)).toBeVisible()
    expect(state.rules).toEqual(['deal-stage-changed'])
    takeLog()
  },
)

test.each([
  ['ticks a rule', 'no answer comes', [], () => HttpResponse.error()],
  ['unticks a rule', 'no answer comes', ['deal-stage-changed'], () => HttpResponse.error()],
  ['ticks a rule', 'a proxy answers 504', [], withStatus(504)],
])(
  'a save that %s is stored, but %s: the page shows what is stored, and the user can take it back',
  async (_what, _how, rules, answer) => {
    const { calls, state, user } = openApp({ connected: both(), rules: [...rules] })
    server.use(
      http.post(
        rulesPath,
        async ({ request }) => {
          Object.assign(state, await request.json())
          return answer()
        },
        { once: true },
      ),
    )
    await tickAndSave(user)
    expect(await screen.findByText(failed)).toBeVisible()
    await waitFor(() => expect(calls('GET /api/notifications/rules')).toHaveLength(2))
    expect(await stageBox()).toHaveProperty('checked', rules.length === 0)
    await user.click(await stageBox())
    expect(screen.getByText('Unsaved changes')).toBeVisible()
    await user.click(saveButton())
    expect(await screen.findByText(saved)).toBeVisible()
    expect(state.rules).toEqual(rules)
    takeLog()
  },
)

test('while nobody knows what a lost save has stored, every change counts, and the next save loads the rules first', async () => {
  const { handlers, state, user } = openApp({ connected: both() })
  const lost = http.all('*/api/notifications/rules', async ({ request }) => {
    if (request.method === 'POST') Object.assign(state, await request.json())
    return HttpResponse.error()
  })
  await stageBox()
  server.use(lost)
  await tickAndSave(user)
  expect(await screen.findByText(failed)).toBeVisible()
  await user.click(await stageBox())
  expect(screen.getByText('Unsaved changes')).toBeVisible()
  // Another tab has saved, and its message is lost.
  state.rules.push('deal-closed')
  server.resetHandlers(...handlers)
  await user.click(saveButton())
  expect(await screen.findByText(saved)).toBeVisible()
  expect(state.rules).toEqual(['deal-closed'])
  takeLog()
})

test('a save that waits sends the ticks on top of the rules that have arrived meanwhile', async () => {
  const rules = ['deal-closed', 'a-rule-of-tomorrow']
  const { handlers, state, user } = openAppWithUnknownRules(rules)
  await user.click(await stageBox())
  const release = hold('delete', '*/api/session', withStatus(204))
  await user.click(await accountItem(user, 'Sign out of all other browsers'))
  await user.click(saveButton())
  server.resetHandlers(...handlers)
  await hearFromOtherTab({ saved: 'ann' })
  const box = await closedBox()
  await waitFor(() => expect(box).toBeChecked())
  release()
  expect(await screen.findByText(saved)).toBeVisible()
  expect(state.rules).toEqual([...rules, 'deal-stage-changed'])
  takeLog()
})

test('a save of which the person has changed while it loads the rules is not made for the next person', async () => {
  const { calls, handlers, state, user } = openAppWithUnknownRules([])
  await user.click(await stageBox())
  server.resetHandlers(...handlers)
  const answer = hold('get', rulesPath)
  await user.click(saveButton())
  await waitFor(() => expect(calls('GET /api/notifications/rules')).toHaveLength(2))
  Object.assign(state, { person: 'bob', rules: ['deal-closed'] })
  answer()
  await waitFor(() =>
    expect(screen.getByRole('checkbox', { name: /signed or closed/ })).toBeChecked(),
  )
  await settle()
  expect(calls('POST')).toEqual([])
  expect(state.rules).toEqual(['deal-closed'])
  takeLog()
})

function openAppWithUnknownRules(rules: string[]) {
  const app = openApp({ person: 'ann', connected: both(), rules, features: ['sessions'] })
  server.use(http.get(rulesPath, withStatus(404)))
  return app
}

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

  test.each<(string | undefined)[]>([['ann', 'ann'], ['nobody', 'ann'], []])(
    'are there again, unsaved, after %s has connected, and no question is asked',
    async (before, after) => {
      const { calls, state, asks, back } = await connectWithTicks(before, after)
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
    ['are no longer offered', 'ann', '["ann",{"rule-of-yesterday":true}]'],
    ['have another form', 'ann', '["ann",[],["deal-stage-changed"]]'],
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
    const box = () => screen.getByRole('checkbox', { name: /signed or closed/ })
    await waitFor(() => expect(box()).toBeChecked())
    expect(await stageBox()).toBeChecked()
    await user.click(saveButton())
    await screen.findByText(saved)
    expect(state.rules).toEqual([...rules, 'deal-stage-changed'])
    takeLog()
  })
})
