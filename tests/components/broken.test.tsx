import { act, screen, waitFor, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test, vi } from 'vitest'
import type { ActivityItem } from '../../contract/features/activity.ts'
import { featureNames as allFeatures } from '../../contract/features.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { sentItem } from '../msw/activity.ts'
import { server } from '../msw/server.ts'
import {
  both,
  hearFromOtherTab,
  hold,
  lookAgain,
  openApp,
  recordTexts,
  returnFromCache,
  setOnline,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'
import { accountItem } from './dashboard.ts'

const features = ['activity', 'retry-all']
const ofBreak = { state: 'failed', reason: 'the access was revoked. Connect Slack again' } as const

/** Messages of which two failed while Slack was disconnected, and one for another reason. */
const messages = (): ActivityItem[] => [
  sentItem('1'),
  sentItem('2', ofBreak),
  sentItem('3', ofBreak),
  sentItem('4', { state: 'failed', reason: 'Slack did not answer' }),
]

/** Opens the app of a user who has connected both services. */
const open: typeof openApp = (initial, address) =>
  openApp({ connected: both(), features, ...initial }, address)

test.each([['/'], ['/activity?state=failed']])(
  'at %s, one button sends all again that failed while Slack was disconnected, and says so',
  async (address) => {
    const activity = { items: messages() }
    const { calls, user } = open({ activity }, address)
    await screen.findByText('2 messages failed while Slack was disconnected.')
    await user.dblClick(screen.getByRole('button', { name: 'Send all again' }))
    expect(await screen.findByText('2 messages will be sent again.')).toHaveRole('status')
    await waitFor(() => expect(screen.queryByText(/failed while/)).not.toBeInTheDocument())
    expect(calls('POST')).toEqual(['POST /api/notifications/activity/retry-all?because=broken'])
    // Only what is about messages loads again.
    expect(calls('GET /health')).toHaveLength(1)
    if (address === '/') {
      // The button is gone, and the focus stays at its result.
      await waitFor(() => expect(document.activeElement).toHaveTextContent('2 messages will be'))
      return
    }
    // The button is now for the other failed one.
    await user.click(screen.getByRole('button', { name: 'Send all again' }))
    await screen.findByText('1 message will be sent again.')
  },
)

test('more failed messages than one call sends again are named, and a failed call says so', async () => {
  const failedWhileBroken = { count: 1000, more: true, providers: ['hubspot', 'slack'] }
  const { user } = open({ activity: { summary: { failedWhileBroken } } })
  server.use(http.post('*/retry-all', withStatus(503)))
  await screen.findByText(
    'At least 1,000 messages failed while HubSpot or Slack were disconnected.',
  )
  await user.click(screen.getByRole('button', { name: 'Send all again' }))
  await screen.findByText('❌ Failed to send them again. The server answered with an error (503).')
  expect(takeLog()).toEqual([
    'Sending messages again failed: The server answered with an error (503)',
  ])
})

test('while Slack is broken, failed messages lead to Slack and not to another try', async () => {
  const assign = vi.spyOn(window.location, 'assign').mockReturnValue(undefined)
  const activity = { items: messages(), summary: { connectFirst: ['slack'] } }
  const { calls, user } = open({ activity }, '/activity?state=failed')
  await user.click(await screen.findByRole('button', { name: 'Connect Slack' }))
  const row = within(screen.getByText('Deal 4').closest('li') as HTMLElement)
  await user.click(row.getByRole('button', { name: 'Connect Slack, to send again: Deal 4' }))
  expect(assign.mock.calls).toEqual([['/api/slack/auth'], ['/api/slack/auth']])
  expect(screen.queryByRole('button', { name: /^Send/ })).not.toBeInTheDocument()
  expect(calls('POST')).toEqual([])
})

test('a failed message offers no other try before it is known whether Slack is broken', async () => {
  open({ activity: { items: messages(), summary: { connectFirst: ['slack'] } } }, '/activity')
  const answer = hold('get', '*/summary')
  const texts = recordTexts()
  await settle()
  answer()
  await screen.findByRole('button', { name: 'Connect Slack, to send again: Deal 4' })
  expect(texts.join()).not.toContain('Send again')
})

test('with a filter, one button sends all again that it finds, and says so', async () => {
  const rule = 'deal-stage-changed'
  const items = messages().map((item, n) => (n < 3 ? { ...item, rule } : item))
  const { calls, user } = open(
    { features: [...features, 'activity-search'], activity: { items } },
    `/activity?state=failed&q=deal&rule=${rule}`,
  )
  await screen.findByText('2 failed messages match.')
  await user.dblClick(screen.getByRole('button', { name: 'Send all again' }))
  expect(await screen.findByText('2 messages will be sent again.')).toHaveRole('status')
  await waitFor(() => expect(screen.queryByText(/match\.$/)).not.toBeInTheDocument())
  expect(calls('POST')).toEqual([`POST /api/notifications/activity/retry-all?q=deal&rule=${rule}`])
  // What is said is about the former filter.
  await user.selectOptions(screen.getByRole('combobox', { name: 'Rule' }), 'All rules')
  await screen.findByText('1 failed message matches.')
  expect(screen.queryByText('2 messages will be sent again.')).not.toBeInTheDocument()
})

test.each([
  ['would send more than the filter finds', '&day=2026-11-20', [...allFeatures]],
  ['lacks the feature retry-all', '', allFeatures.filter((each) => each !== 'retry-all')],
])('a backend that %s shows no button for all', async (_what, filter, features) => {
  const activity = { items: messages(), retriesFilter: false }
  open({ features, activity }, `/activity?state=failed${filter}`)
  await screen.findByText('Deal 4')
  await settle()
  expect(screen.queryByText(/match|failed while|Send all again/)).not.toBeInTheDocument()
})

test('the button of a failed message keeps the focus when another tab has connected Slack', async () => {
  stopClock()
  const summary = { connectFirst: ['slack'] }
  open({ activity: { items: messages(), summary } }, '/activity')
  await settle()
  screen.getByRole('button', { name: 'Connect Slack, to send again: Deal 4' }).focus()
  summary.connectFirst = []
  await pass(15_000)
  expect(screen.getByRole('button', { name: 'Send again: Deal 4' })).toHaveFocus()
})

test.each([
  ['/slack/callback', '/', 'Slack'],
  ['/hubspot/callback', '/', 'HubSpot'],
  ['/hubspot/callback', '/connect/hubspot', 'HubSpot'],
] as const)(
  'what failed at %s stays readable at %s, until the next attempt and for nobody else',
  async (callback, onward, name) => {
    const other = name === 'Slack' ? 'HubSpot' : 'Slack'
    const connected = new Set([other.toLowerCase()])
    const { state, router } = open({ connected }, `${callback}?code=bad`)
    const words = `${name} connection failed: The server answered with an error (400)`
    expect(await screen.findByText(words)).toHaveRole('alert')
    await act(() => router.navigate({ href: onward }))
    await waitFor(() => expect(screen.getByText(words)).not.toHaveRole('alert'))
    takeLog()
    if (onward !== '/') return
    await screen.findByRole('button', { name: `Disconnect ${other}` })
    await settle()
    expect(screen.getByText(words)).toBeVisible()
    await hearFromOtherTab('bob')
    await waitFor(() => expect(screen.queryByText(words)).not.toBeInTheDocument())

    await act(() => router.navigate({ href: `${callback}?code=worse` }))
    await screen.findByText(words)
    takeLog()
    await act(() => router.navigate({ href: onward }))
    state.codes.add('good')
    await act(() => router.navigate({ href: `${callback}?code=good` }))
    await screen.findByRole('button', { name: `Disconnect ${name}` })
    expect(screen.queryByText(words)).not.toBeInTheDocument()
  },
)

test('what failed at a callback is over after Back from the next attempt, and once another tab has connected the service', async () => {
  const { state, router, user } = open({ connected: new Set() })
  const words = /^Slack connection failed/
  const connectElsewhere = () => {
    state.connected.add('slack')
    lookAgain()
  }
  for (const [code, end] of [
    ['bad', returnFromCache],
    ['worse', connectElsewhere],
  ] as const) {
    await act(() => router.navigate({ href: `/slack/callback?code=${code}` }))
    await screen.findByRole('alert')
    takeLog()
    await act(() => router.navigate({ to: '/' }))
    await screen.findByText(words)
    end()
    await waitFor(() => expect(screen.queryByText(words)).not.toBeInTheDocument())
  }
  await user.click(await screen.findByRole('button', { name: 'Disconnect Slack' }))
  await screen.findByRole('button', { name: 'Connect Slack' })
  expect(screen.queryByText(words)).not.toBeInTheDocument()
})

test('a browser that is offline says so, and not that both services are disconnected', async () => {
  const { calls, handlers, state, user } = open()
  await screen.findByText(/^Disconnecting also/)
  setOnline(false)
  await screen.findByText('You are offline. The connections below may be out of date.')
  // What cannot be sent now fails now, and is not sent later.
  server.use(http.all('*/api/*', HttpResponse.error))
  lookAgain()
  await user.click(screen.getByRole('button', { name: 'Save' }))
  await screen.findByText('❌ Failed to save rules, try again.')
  await waitFor(() => expect(calls('GET /api/slack/status')).toHaveLength(3))
  expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  await settle()
  takeLog()
  server.resetHandlers(...handlers)
  state.connected.delete('slack')
  setOnline(true)
  await screen.findByRole('button', { name: 'Connect Slack' })
  expect(screen.queryByText(/You are offline/)).not.toBeInTheDocument()
  expect(calls('POST')).toHaveLength(1)

  // What the browser says may be wrong in both ways. Any answer of the server shows that.
  state.connected.add('slack')
  lookAgain()
  await screen.findByRole('button', { name: 'Disconnect Slack' })
  server.use(http.get('*/api/:provider/status', HttpResponse.error))
  for (const [isOnline, words] of [
    [true, 'The server could not be reached. The connections below may be out of date.'],
    [false, 'You are offline. The connections below may be out of date.'],
  ] as const) {
    if (isOnline) lookAgain()
    else setOnline(false)
    const notice = await screen.findByText(words)
    await settle()
    await user.click(screen.getByRole('button', { name: 'Save' }))
    await waitFor(() => expect(notice).not.toBeInTheDocument())
  }
  takeLog()
})

test.each<[path: string, failed: string | RegExp, then: string | RegExp]>([
  ['*/api/*', /^The server could not be reached/, /^Sent once/],
  ['*/hubspot/status', 'Connections required', 'Disconnect'],
  ['*/rules', 'No notification rules defined', /^Sent once/],
  ['*/summary', 'The number of sent messages could not be loaded.', /^Sent once/],
  ['*/preview', 'The preview of this rule could not be loaded.', /^Would have sent 31/],
  ['*/activity', 'The messages could not be loaded', 'Deal 1'],
])(
  'what failed of %s is loaded again while it is on screen, but not in a hidden tab',
  async (path, failed, then) => {
    stopClock()
    const { calls, handlers } = open(
      {
        rules: ['deal-closed'],
        features: [...features, 'preview'],
        activity: { items: [sentItem('1')] },
      },
      path === '*/activity' ? '/activity' : '/',
    )
    server.use(http.all(path, HttpResponse.error))
    // The late parts load, and calls are repeated once.
    for (let times = 0; times < 5; times++) await pass(10)
    expect(screen.getAllByText(failed)[0]).toBeVisible()
    const visibility = vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden')
    lookAgain()
    const before = calls().length
    await pass(60_000)
    expect(calls()).toHaveLength(before)
    visibility.mockRestore()
    await pass(15_000)
    expect(calls().length).toBeGreaterThan(before)
    expect(screen.getAllByText(failed)[0]).toBeVisible()
    server.resetHandlers(...handlers)
    await pass(15_000)
    expect(screen.queryByText(failed)).not.toBeInTheDocument()
    expect(screen.getAllByText(then)[0]).toBeVisible()
    takeLog()
  },
)

test('a session that has ended says so until somebody connects, and one that a sign-out has ended does not', async () => {
  const { state, user } = open({ person: 'ann', features: [...features, 'sessions'] })
  await screen.findByText(/^Disconnecting also/)
  const words = 'Your session has ended. Connect HubSpot to find your settings again.'
  for (const person of ['nobody', 'bob', 'nobody']) {
    state.connected.clear()
    state.person = person
    lookAgain()
    await waitFor(() =>
      expect(screen.queryAllByText(words)).toHaveLength(Number(person === 'nobody')),
    )
  }
  await screen.findByRole('button', { name: 'Connect Slack' })
  // Another tab has connected as Ann again, and then signed out.
  for (const person of ['ann', 'nobody']) {
    state.person = person
    await hearFromOtherTab(person)
    await waitFor(() => expect(screen.queryByText(words)).not.toBeInTheDocument())
  }
  // The answer to another call comes before that of a sign-out.
  state.person = 'ann'
  await hearFromOtherTab('ann')
  const headers = { 'Dealbell-Person': 'nobody' }
  const ended = () => new HttpResponse(null, { status: 204, headers })
  const answer = hold('delete', '*/api/session', ended)
  await user.click(await accountItem(user, 'Sign out of this browser'))
  state.person = 'nobody'
  lookAgain()
  await screen.findByText(words)
  answer()
  await waitFor(() => expect(screen.queryByText(words)).not.toBeInTheDocument())
})

test('before a disconnect of the CRM, its row says what it removes; meanwhile, the button says so', async () => {
  const { user } = open()
  const answer = hold('delete', '*/api/hubspot/disconnect')
  const note = await screen.findByText(
    'Disconnecting also removes the deal names and stages from Activity.',
  )
  const row = note.closest('li') as HTMLElement
  const button = within(row).getByRole('button', { name: 'Disconnect HubSpot' })
  await user.click(button)
  expect(button).toHaveTextContent('Disconnecting…')
  expect(button).toHaveAccessibleName('Disconnecting… HubSpot')
  answer()
  await waitFor(() => expect(button).toHaveTextContent(/^Connect$/))
  expect(note).not.toBeInTheDocument()
})

test('what waits as the result of a click is not said any more once nothing waits', async () => {
  stopClock()
  const summary = { waiting: 0, failedWhileBroken: { count: 2, more: false, providers: ['slack'] } }
  const waits = {
    state: 'waiting',
    channel: '#sales',
    reason: 'It is busy',
    nextTryAt: null,
  } as const
  open({
    features: [...features, 'test-message'],
    activity: { items: messages(), summary, test: waits },
  })
  await settle()
  await pass(10)
  for (const name of ['Send a test message', 'Send all again']) {
    act(() => screen.getByRole('button', { name }).click())
  }
  await settle()
  const results = [/^Waiting: It is busy/, /will be sent again/]
  for (const [waiting, shown] of [
    [1, 1],
    [0, 0],
    [1, 0],
  ] as const) {
    summary.waiting = waiting
    await pass(15_000)
    for (const result of results) expect(screen.queryAllByText(result)).toHaveLength(shown)
  }
})
