import { act, screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import {
  both,
  hearFromOtherTab,
  hold,
  lookAgain,
  openApp,
  recordTexts,
  returnFromCache,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'
import {
  accountItem,
  button,
  failed,
  openingCalls,
  refused,
  rulesPath,
  saved,
  signedOut,
  tickAndSave,
} from './dashboard.ts'

const box = (name: RegExp, checked?: boolean) =>
  screen.findByRole('checkbox', { name, ...(checked !== undefined && { checked }) })
const stage = /deal stage changes/
const closed = /signed or closed/
const orphan = /moves stage without/

type State = ReturnType<typeof openApp>['state']

/** Opens the app as Ann, who has both services and a rule. Null: the backend names nobody. */
const openAsAnn = (person: string | null = 'ann', address = '/') =>
  openApp(
    {
      person: person ?? undefined,
      connected: both(),
      rules: ['deal-closed'],
      codes: new Set(['abc']),
      features: ['sessions'],
    },
    address,
  )

/** The browser becomes Bob's, who has both services and another rule. */
function becomeBob(state: State): void {
  if (state.person !== undefined) state.person = 'bob'
  state.connected = both()
  state.rules = ['deal-stage-changed-orphan']
}

/** Opens the dashboard as Ann, and ticks a rule. */
async function tickAsAnn(person?: string | null) {
  const app = openAsAnn(person)
  await app.user.click(await box(stage))
  return app
}

async function expectBob(): Promise<void> {
  expect(await box(orphan, true)).toBeVisible()
  for (const name of [stage, closed]) expect(await box(name)).not.toBeChecked()
  expect(screen.queryByText('Unsaved changes')).not.toBeInTheDocument()
  for (const text of [saved, failed]) expect(screen.queryByText(text)).not.toBeInTheDocument()
}

async function expectNobody(): Promise<void> {
  expect(await button('Connect HubSpot')).toBeVisible()
  expect(await button('Connect Slack')).toBeVisible()
  for (const name of [stage, closed, orphan]) expect(await box(name)).not.toBeChecked()
  expect(screen.queryByText('Unsaved changes')).not.toBeInTheDocument()
  expect(screen.queryByText(saved)).not.toBeInTheDocument()
}

/** How a tab learns that another one has changed the person. */
const ways: [name: string, person: string | null, learn: (state: State) => void][] = [
  ['is shown again, with a backend that names the person', 'ann', lookAgain],
  ['hears it from the other one', 'ann', ({ person }) => hearFromOtherTab(person ?? null)],
  ['hears it, with a backend of section 7', null, () => hearFromOtherTab(null)],
  ['comes out of the back-forward cache', 'ann', returnFromCache],
  ['comes out of the back-forward cache, with a backend of section 7', null, returnFromCache],
]

describe.each(ways)('a tab that %s', (_name, person, learn) => {
  test('forgets everything of the former person, and loads the new one', async () => {
    const { state, user } = await tickAsAnn(person)
    expect(screen.getByText('Unsaved changes')).toBeVisible()
    becomeBob(state)
    learn(state)
    await waitFor(expectBob)
    // A save is Bob's now.
    await tickAndSave(user)
    expect(await screen.findByText(saved)).toBeVisible()
    expect(state.rules).toEqual(['deal-stage-changed-orphan', 'deal-stage-changed'])
  })

  test('forgets what it keeps for later, while it shows another screen', async () => {
    const { calls, state, user, router } = openAsAnn(person)
    await box(closed, true)
    await button('Account')
    void router.navigate({ to: '/contact' })
    await screen.findByRole('heading', { name: 'Contact Support' })
    becomeBob(state)
    const before = calls().length
    learn(state)
    await settle()
    // Nothing is loaded for a screen that is not shown. At a mere look, nothing is loaded for the header either.
    const later = calls().slice(before)
    if (learn === lookAgain) expect(later).toEqual([])
    else expect(later.filter((call) => !call.endsWith('/status'))).toEqual([])
    await user.click(screen.getByRole('link', { name: 'Dealbell' }))
    await waitFor(expectBob)
  })

  test.each([['rules'], ['hubspot/status'], ['slack/status']])(
    'never shows what was asked for the former person: %s',
    async (path) => {
      const { calls, handlers, state, user } = openAsAnn(person)
      const release = hold('get', `*/${path}`, () =>
        HttpResponse.json(
          { rules: ['deal-closed'], connected: true, account: 'Ann Ltd.' },
          { headers: person === null ? {} : { 'Dealbell-Person': person } },
        ),
      )
      await waitFor(() => expect(calls().length).toBeGreaterThanOrEqual(4))
      await settle()
      server.resetHandlers(...handlers)
      becomeBob(state)
      const texts = recordTexts()
      learn(state)
      await waitFor(expectBob)
      await user.click(await box(stage))
      await settle()
      const before = calls().length
      release()
      await settle()
      await user.click(await box(stage))
      await expectBob()
      expect(calls()).toHaveLength(before)
      expect(texts.join()).not.toContain('Ann Ltd.')
    },
  )

  test('shows nothing of a save that ends after that, but loads again what it may have changed', async () => {
    const { calls, state, user } = openAsAnn(person)
    const release = hold('post', rulesPath, withStatus(204))
    await tickAndSave(user)
    await button('Saving…')
    becomeBob(state)
    learn(state)
    await box(orphan, true)
    await settle()
    const before = calls().length
    release()
    await button('Save')
    await settle()
    await expectBob()
    // All but the health check.
    expect(calls().slice(before).toSorted()).toEqual(openingCalls.slice(0, -1))
  })
})

test('a save that loads unknown rules in a hidden tab holds up nothing that waits for it', async () => {
  const { calls, user } = openAsAnn()
  server.use(http.get(rulesPath, withStatus(503)))
  await user.click(await box(stage))
  const release = hold('get', rulesPath, withStatus(503))
  await user.click(await button('Save'))
  await user.click(await button('Disconnect Slack'))
  const visibility = vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden')
  lookAgain()
  release()
  await settle()
  visibility.mockRestore()
  lookAgain()
  expect(await button('Connect Slack')).toBeVisible()
  expect(calls('POST')).toHaveLength(1)
  await settle()
  takeLog()
})

test('a save that loads unknown rules is not sent if the person changes meanwhile', async () => {
  const { calls, handlers, state, user } = openAsAnn()
  server.use(http.get(rulesPath, withStatus(403)))
  await user.click(await box(stage))
  const release = hold('get', rulesPath, () => HttpResponse.json({ rules: ['deal-closed'] }))
  await user.click(await button('Save'))
  await button('Saving…')
  server.resetHandlers(...handlers)
  becomeBob(state)
  await hearFromOtherTab('bob')
  await waitFor(expectBob)
  release()
  await button('Save')
  await settle()
  await expectBob()
  expect(calls('POST')).toEqual([])
  expect(takeLog()).toHaveLength(1)
})

test.each([
  ['did', 'ann'],
  ['does not know to have done', null],
])('what another tab %s for the same person leaves the ticks alone', async (_what, named) => {
  const { calls, state, user } = openAsAnn()
  state.connected.delete('slack')
  await user.click(await box(stage))
  state.connected.add('slack')
  hearFromOtherTab(named)
  expect(await button('Disconnect Slack')).toBeVisible()
  expect(await box(stage)).toBeChecked()
  lookAgain()
  await settle()
  expect(calls('GET /api/slack/status')).toHaveLength(3)
  expect(calls('GET /api/notifications/rules')).toHaveLength(1)
  expect(calls('GET /health')).toHaveLength(1)
})

test('a page that comes out of the back-forward cache keeps the ticks of the same person, and hears the other tabs again', async () => {
  const { calls, state } = await tickAsAnn()
  const before = calls().length
  // The browser shows a new page too, which loads nothing for it.
  window.dispatchEvent(new Event('pageshow'))
  // In the cache, the page hears nothing. It could not stay there with an open channel.
  window.dispatchEvent(new Event('pagehide'))
  await hearFromOtherTab('bob')
  await settle()
  expect(calls()).toHaveLength(before)
  returnFromCache()
  await waitFor(() => expect(calls()).toHaveLength(before + 2))
  expect(await box(stage)).toBeChecked()
  becomeBob(state)
  await hearFromOtherTab('bob')
  await waitFor(expectBob)
})

test('with a backend of section 7, a look at another screen adds no call', async () => {
  stopClock()
  const { calls, router } = openAsAnn(null)
  await settle()
  await act(() => router.navigate({ to: '/contact' }))
  lookAgain()
  await act(() => router.navigate({ to: '/' }))
  await settle()
  expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  expect(calls('GET /api/slack/status')).toHaveLength(1)
})

test('a callback of the same person keeps the ticks and the result of a save', async () => {
  const { calls, user } = openAsAnn('ann', '/slack/callback?code=abc')
  const answer = hold('get', '*/api/slack/callback')
  const release = hold('post', rulesPath, withStatus(204))
  await user.click(await screen.findByRole('link', { name: 'Dealbell' }))
  await tickAndSave(user)
  answer()
  await waitFor(() => expect(calls('GET /api/slack/status')).toHaveLength(2))
  await settle()
  expect(await box(stage)).toBeChecked()
  release()
  expect(await screen.findByText(saved)).toBeVisible()
  expect(await box(stage)).toBeChecked()
})

describe.each([['ann'], [null]])('a page that shows %s', (person) => {
  test('shows the new person after a pending callback ends', async () => {
    const { state, user } = openAsAnn(person, '/hubspot/callback?code=abc')
    const release = hold('get', '*/api/hubspot/callback', () =>
      person === null
        ? withStatus(204)()
        : new HttpResponse(null, { status: 204, headers: { 'Dealbell-Person': 'bob' } }),
    )
    await screen.findByText('Handling HubSpot OAuth Callback...')
    await user.click(screen.getByRole('link', { name: 'Dealbell' }))
    await user.click(await box(stage))
    becomeBob(state)
    release()
    await waitFor(expectBob)
    expect(await button('Disconnect Slack')).toBeVisible()
  })

  test('tells the other tabs of a callback and of a sign-out', async () => {
    const heard = hearAsOtherTab()
    const { user } = openAsAnn(person, '/slack/callback?code=abc')
    await user.click(await accountItem(user, 'Sign out of this browser'))
    await screen.findByText(signedOut)
    await waitFor(() => expect(heard).toEqual(person === null ? [null, null] : ['ann', 'nobody']))
  })

  test('shows nothing of them after a sign-out, also after everything was forgotten', async () => {
    const { user } = openAsAnn(person)
    const release = hold('delete', '*/api/session')
    const signOut = await accountItem(user, 'Sign out of this browser')
    // A screen reader announces only a text that appears in an existing region.
    const result = screen.getByRole('banner').querySelector('[role=status]')
    await user.click(signOut)
    await hearFromOtherTab(null)
    expect(await box(closed, true)).toBeVisible()
    release()
    expect(await screen.findByText(signedOut)).toBe(result)
    await waitFor(expectNobody)
    expect(result).toHaveFocus()
  })

  test('says so if a sign-out gets no answer, and every tab asks again', async () => {
    const { state, user } = await tickAsAnn(person)
    server.use(
      http.delete('*/api/session', () => {
        // The browser's session ends.
        if (person !== null) state.person = 'nobody'
        state.connected.clear()
        state.rules = []
        return HttpResponse.error()
      }),
    )
    const heard = hearAsOtherTab()
    await user.click(await accountItem(user, 'Sign out of this browser'))
    // The failure is over once an answer names nobody.
    const words = person === null ? '❌ Failed to sign out, try again.' : signedOut
    expect(await screen.findByText(words)).toBeVisible()
    await waitFor(expectNobody)
    expect(screen.getByText(words)).toBeVisible()
    await waitFor(() => expect(heard).toEqual([null]))
    expect(takeLog()).toHaveLength(1)
  })
})

describe('a change that the backend refuses because the person is another one', () => {
  test('is a failed save, after which the page shows that person', async () => {
    const { requests, state, user } = await tickAsAnn()
    becomeBob(state)
    await user.click(await button('Save'))
    expect(await screen.findByText(failed)).toBeVisible()
    expect(await box(orphan, true)).toBeVisible()
    expect(await box(stage)).not.toBeChecked()
    // The button that had the focus was loaded again.
    expect(screen.getByRole('heading', { level: 1 })).toHaveFocus()
    expect(state.rules).toEqual(['deal-stage-changed-orphan'])
    // Only a change names the person.
    expect(requests.filter(({ person }) => person !== null)).toMatchObject([
      { method: 'POST', person: 'ann' },
    ])
    expect(takeLog()).toHaveLength(1)
  })

  test('disconnects nothing, and signs nobody out', async () => {
    const { state, user } = openAsAnn()
    await box(closed, true)
    becomeBob(state)
    await user.click(await button('Disconnect Slack'))
    await waitFor(expectBob)
    state.person = 'carol'
    await user.click(await accountItem(user, 'Sign out of this browser'))
    expect(await screen.findByText('❌ Failed to sign out, try again.')).toBeVisible()
    expect(await button('Disconnect Slack')).toBeVisible()
    expect(state.connected.size).toBe(2)
    takeLog()
  })
})

test('a save that a backend of section 7 refuses with 409 loads both statuses again, and names no person', async () => {
  const { calls, requests, state, user } = await tickAsAnn(null)
  server.use(http.post(rulesPath, withStatus(409)))
  state.connected.clear()
  await user.click(await button('Save'))
  expect(await screen.findByText(failed)).toBeVisible()
  expect(await button('Connect HubSpot')).toBeVisible()
  expect(await button('Connect Slack')).toBeVisible()
  expect(calls('GET /api/slack/status')).toHaveLength(2)
  expect(requests.filter(({ person }) => person !== null)).toEqual([])
  takeLog()
})

test('a save in another tab of the same person is shown, and what was ticked and unticked here is applied to it', async () => {
  const { calls, state, user } = await tickAsAnn()
  await user.click(await box(closed, true))
  state.rules = ['deal-closed', 'deal-stage-changed-orphan']
  await hearFromOtherTab({ saved: 'bob' })
  await hearFromOtherTab({ saved: 'ann' })
  expect(await box(orphan, true)).toBeVisible()
  expect(calls('GET /api/notifications/rules')).toHaveLength(2)
  const heard = hearAsOtherTab()
  await user.click(await button('Save'))
  expect(await screen.findByText(saved)).toBeVisible()
  expect(state.rules).toEqual(['deal-stage-changed-orphan', 'deal-stage-changed'])
  await waitFor(() => expect(heard).toEqual([{ saved: 'ann' }]))
})

test('with a backend of section 7, a save is told to no other tab, because it could be another person’s', async () => {
  const { user } = openAsAnn(null)
  const heard = hearAsOtherTab()
  await tickAndSave(user)
  expect(await screen.findByText(saved)).toBeVisible()
  await hearFromOtherTab('the last message')
  expect(heard).toEqual(['the last message'])
})

/** What the other tabs are told from now on. */
function hearAsOtherTab(): unknown[] {
  const heard: unknown[] = []
  const channel = new BroadcastChannel('dealbell-person')
  channel.onmessage = ({ data }) => heard.push(data)
  onTestFinished(() => channel.close())
  return heard
}

test('a save that waits for a disconnect is refused without a call', async () => {
  const { calls, user } = await tickAsAnn()
  const release = hold('delete', '*/disconnect')
  await user.click(await button('Disconnect Slack'))
  await user.click(await button('Save'))
  await button('Saving…')
  const texts = recordTexts()
  release()
  expect(await screen.findByText(refused)).toBeVisible()
  expect(await button('Save')).toBeEnabled()
  expect(await box(stage)).toBeChecked()
  expect(calls('POST')).toEqual([])
  expect(texts.join()).not.toMatch(/Failed|saved successfully/)
})

describe('signing out', () => {
  test('waits for a save, and then nothing of it shows', async () => {
    const { calls, user } = openAsAnn()
    const release = hold('post', rulesPath, withStatus(204))
    await tickAndSave(user)
    await user.click(await accountItem(user, 'Sign out of this browser'))
    await settle()
    expect(calls('DELETE')).toEqual([])
    release()
    expect(await screen.findByText(signedOut)).toBeVisible()
    await expectNobody()
    expect(calls('DELETE')).toEqual(['DELETE /api/session'])
  })

  test('drops a save and a disconnect that wait for it', async () => {
    const { calls, user } = await tickAsAnn()
    const release = hold('delete', '*/api/session')
    await user.click(await accountItem(user, 'Sign out of this browser'))
    await user.click(await button('Disconnect Slack'))
    await user.click(await button('Save'))
    await button('Saving…')
    release()
    expect(await screen.findByText(signedOut)).toBeVisible()
    await button('Save')
    await expectNobody()
    expect(screen.queryByText(failed)).not.toBeInTheDocument()
    expect(calls('POST')).toEqual([])
    expect(calls('DELETE')).toEqual(['DELETE /api/session'])
  })
})
