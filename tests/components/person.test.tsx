import { screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import {
  both,
  hearFromOtherTab,
  hold,
  lookAgain,
  openApp,
  recordTexts,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'
import {
  accountItem,
  button,
  failed,
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

/** @param ticked whether the tick is there that was made before; nobody knows whose it is. */
async function expectBob(ticked = false): Promise<void> {
  expect(await box(orphan, true)).toBeVisible()
  expect(await box(closed, false)).toBeVisible()
  expect(await box(stage, ticked)).toBeVisible()
  expect(screen.queryAllByText(/Unsaved changes|Rules saved|Failed/)).toHaveLength(ticked ? 1 : 0)
}

/** How a tab learns that another one has changed the person. tests/e2e/person.spec.ts has the back-forward cache. */
const ways: [name: string, person: string | null, learn: (state: State) => void][] = [
  ['is shown again, with a backend that names the person', 'ann', lookAgain],
  ['hears it from the other one', 'ann', ({ person }) => hearFromOtherTab(person ?? null)],
  ['hears it, with a backend of section 7', null, () => hearFromOtherTab(null)],
]

// The model (tests/components/model) has what a change of the person ends, in any order.
test.each(ways)(
  'a tab that %s forgets everything that is known to be the former person’s, and loads the new one',
  async (_name, person, learn) => {
    const { state, user } = await tickAsAnn(person)
    expect(screen.getByText('Unsaved changes')).toBeVisible()
    becomeBob(state)
    learn(state)
    await expectBob(person === null)
    // A save is Bob's now.
    if (person === null) await user.click(await button('Save'))
    else await tickAndSave(user)
    expect(await screen.findByText(saved)).toBeVisible()
    expect(state.rules).toEqual(['deal-stage-changed-orphan', 'deal-stage-changed'])
  },
)

test.each([['ann'], [null]])(
  'a tab that shows %s never shows what was asked for that person, and arrives for the next one',
  async (person) => {
    const { handlers, state } = openAsAnn(person)
    const release = hold('get', '*/api/*', () =>
      HttpResponse.json(
        { rules: ['deal-closed'], connected: true, account: 'Ann Ltd.' },
        { headers: person === null ? {} : { 'Dealbell-Person': person } },
      ),
    )
    await screen.findByText('Loading dashboard...')
    await settle()
    server.resetHandlers(...handlers)
    becomeBob(state)
    const texts = recordTexts()
    await hearFromOtherTab(person === null ? null : 'bob')
    await expectBob()
    release()
    await settle()
    await expectBob()
    expect(texts.join()).not.toContain('Ann Ltd.')
  },
)

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
  expect(await box(stage, true)).toBeVisible()
  expect(screen.getByText('Unsaved changes')).toBeVisible()
  await settle()
  expect(calls('GET /health')).toHaveLength(2)
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
    await expectBob(person === null)
    expect(await button('Disconnect Slack')).toBeVisible()
  })

  test('tells the other tabs of a callback and of a sign-out', async () => {
    const heard = hearAsOtherTab()
    const { user } = openAsAnn(person, '/slack/callback?code=abc')
    await user.click(await accountItem(user, 'Sign out of this browser'))
    await screen.findByText(signedOut)
    await waitFor(() => expect(heard).toEqual(person === null ? [null, null] : ['ann', 'nobody']))
  })
})

test('a backend that names two persons in turn loads the page again once, and once more after the user looks', async () => {
  const { calls } = openAsAnn()
  const rules = await box(closed, true)
  const answer = (person: string) =>
    HttpResponse.json(
      { connected: true, rules: ['deal-closed'] },
      { headers: { 'Dealbell-Person': person } },
    )
  // Each page reads a status before the rules, so that it is Bob's: a save of Bob's then loads the rules.
  const statusRead = [0, 1, 2].map(() => Promise.withResolvers<void>())
  const ofThisPage = () => statusRead[vi.mocked(window.location.reload).mock.calls.length]
  ofThisPage()?.resolve()
  server.use(
    http.get('*/api/*/status', () => {
      const read = ofThisPage()
      // The page reads an answer in several turns.
      let turns = 0
      const wait = () => (turns++ < 20 ? setTimeout(wait) : read?.resolve())
      wait()
      return answer('bob')
    }),
    http.get('*/api/*/rules', async () => {
      await ofThisPage()?.promise
      return answer('ann')
    }),
  )
  for (const loads of [2, 3]) {
    lookAgain()
    void hearFromOtherTab({ saved: 'bob' })
    await waitFor(() => expect(calls('GET /health')).toHaveLength(loads))
    expect(await box(closed, true)).not.toBe(rules)
    await settle()
    const before = calls('GET /api/notifications/rules').length
    void hearFromOtherTab({ saved: 'bob' })
    await waitFor(() => expect(calls('GET /api/notifications/rules')).toHaveLength(before + 1))
    await settle()
    expect(calls('GET /health')).toHaveLength(loads)
  }
})

test('a save of somebody whose session has ended has failed, and the page says why', async () => {
  const { state, user } = openApp({
    person: 'ann',
    connected: both(),
    features: ['sessions', 'activity'],
  })
  await user.click(await box(stage))
  Object.assign(state, { person: 'nobody', connected: new Set() })
  await user.click(await button('Save'))
  expect(await screen.findByText(/^Your session has ended/)).toBeVisible()
  expect(await screen.findByText(failed)).toBeVisible()
  await user.click(await box(stage, true))
  expect(screen.queryByText(failed)).not.toBeInTheDocument()
  takeLog()
})

test.each([
  ['ann', true],
  ['bob', false],
])('ticks stay when a session ends by itself, and are there for %s: %s', async (person, isKept) => {
  const { calls, state } = await tickAsAnn()
  for (const next of ['nobody', 'nobody-1', person]) {
    const loads = calls('GET /health').length
    state.person = next
    lookAgain()
    await waitFor(() => expect(calls('GET /health')).toHaveLength(loads + 1))
    expect(await box(stage, next !== person || isKept)).toBeVisible()
  }
})

test('ticks go with a sign-out in another tab', async () => {
  const { calls, state } = await tickAsAnn()
  state.person = 'nobody'
  await hearFromOtherTab('nobody')
  await waitFor(() => expect(calls('GET /health')).toHaveLength(2))
  expect(await box(stage, false)).toBeVisible()
  expect(window.sessionStorage).toHaveLength(0)
})

test('a save that the backend refuses because the person is another one has failed, and the page shows that person', async () => {
  const { requests, state, user } = await tickAsAnn()
  becomeBob(state)
  await user.click(await button('Save'))
  expect(await screen.findByText(failed)).toBeVisible()
  expect(await box(orphan, true)).toBeVisible()
  expect(await box(stage)).not.toBeChecked()
  expect(state.rules).toEqual(['deal-stage-changed-orphan'])
  // Only a change names the person.
  const named = requests.filter(({ person }) => person !== null)
  expect(named).toMatchObject([{ method: 'POST', person: 'ann' }])
  takeLog()
})

test('a save that a backend of section 7 refuses with 409 loads both statuses again, and names no person', async () => {
  const { requests, state, user } = await tickAsAnn(null)
  server.use(http.post(rulesPath, withStatus(409)))
  state.connected.clear()
  await user.click(await button('Save'))
  expect(await screen.findByText(failed)).toBeVisible()
  expect(await button('Connect HubSpot')).toBeVisible()
  expect(await button('Connect Slack')).toBeVisible()
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
  const texts = recordTexts()
  release()
  expect(await screen.findByText(refused)).toBeVisible()
  expect(await box(stage)).toBeChecked()
  expect(calls('POST')).toEqual([])
  expect(texts.join()).not.toMatch(/Failed|saved successfully/)
})

test('signing out waits for a save, and then nothing of it shows', async () => {
  const { calls, user } = openAsAnn()
  const release = hold('post', rulesPath, withStatus(204))
  await tickAndSave(user)
  await user.click(await accountItem(user, 'Sign out of this browser'))
  await settle()
  expect(calls('DELETE')).toEqual([])
  release()
  expect(await screen.findByText(signedOut)).toBeVisible()
  expect(await button('Connect HubSpot')).toBeVisible()
  for (const name of [stage, closed]) expect(await box(name)).not.toBeChecked()
  expect(screen.queryByText(/Unsaved changes|Rules saved/)).not.toBeInTheDocument()
})
