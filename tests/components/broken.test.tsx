import { act, screen, waitFor, within } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test, vi } from 'vitest'
import type { ActivityItem } from '../../contract/features/activity.ts'
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
  setOnline,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'

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

test('one button sends all again that failed while Slack was disconnected, and says so', async () => {
  const { calls, user } = open({ activity: { items: messages() } })
  await screen.findByText('2 messages failed while Slack was disconnected.')
  await user.dblClick(screen.getByRole('button', { name: 'Send all again' }))
  expect(await screen.findByText('2 messages will be sent again.')).toHaveRole('status')
  await waitFor(() => expect(screen.queryByText(/failed while/)).not.toBeInTheDocument())
  expect(calls('POST')).toEqual(['POST /api/notifications/activity/retry-all?because=broken'])
  // The button is gone, and the focus stays at its result.
  await waitFor(() => expect(document.activeElement).toHaveTextContent('2 messages will be'))
})

test('more failed messages than one call sends again are named, and a failed call says so', async () => {
  const failedWhileBroken = { count: 1000, more: true, providers: ['hubspot', 'slack'] }
  const { user } = open({ activity: { summary: { failedWhileBroken } } })
  server.use(http.post('*/retry-all', withStatus(503)))
  await screen.findByText(
    'At least 1,000 messages failed while HubSpot or Slack were disconnected.',
  )
  await user.click(screen.getByRole('button', { name: 'Send all again' }))
  await screen.findByText('❌ Failed to send them again. The server answered with an error (503).')
  takeLog()
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
  ['a fault is asked again after 10 s', 500, {}, 10],
  ['a refusal is asked again when the user looks, and not before', 401, {}, 0],
  ['a refusal that names a time is asked again then', 429, { 'Retry-After': '600' }, 600],
  ['a pause that names a time is over then', 503, { 'Retry-After': '60' }, 60],
])('%s (%s)', async (_what, status, headers, seconds) => {
  stopClock()
  const { calls } = open()
  await settle()
  await pass(11_000)
  server.use(http.get('*/api/*', () => new HttpResponse(null, { status, headers })))
  lookAgain()
  await pass(100)
  const before = calls().length
  await pass(seconds === 0 ? 3_600_000 : seconds * 1000 - 200)
  expect(calls()).toHaveLength(before)
  if (seconds === 0) lookAgain()
  await pass(200)
  expect(calls().length).toBeGreaterThan(before)
  takeLog()
})

test.each([
  ['/slack/callback', '/', 'Slack'],
  ['/hubspot/callback', '/connect/hubspot', 'HubSpot'],
])(
  'what failed at %s stays readable at %s, and for nobody else',
  async (callback, onward, name) => {
    const { router } = open({ connected: new Set() }, `${callback}?code=bad`)
    const words = `${name} connection failed: The server answered with an error (400)`
    expect(await screen.findByText(words)).toHaveRole('alert')
    await act(() => router.navigate({ href: onward }))
    await waitFor(() => expect(screen.getByText(words)).not.toHaveRole('alert'))
    takeLog()
    if (onward !== '/') return
    await hearFromOtherTab('bob')
    await waitFor(() => expect(screen.queryByText(words)).not.toBeInTheDocument())
  },
)

test('a browser that is offline says so, and not that both services are disconnected', async () => {
  const { handlers } = open()
  await screen.findByText(/^Disconnect also/)
  setOnline(false)
  await screen.findByText('You are offline. The connections below may be out of date.')
  server.use(http.all('*/api/*', HttpResponse.error))
  lookAgain()
  await settle()
  expect(screen.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  takeLog()
  server.resetHandlers(...handlers)
  setOnline(true)
  await waitFor(() => expect(screen.queryByText(/You are offline/)).not.toBeInTheDocument())
})

test('while the server cannot be reached, the page says so without a pause', async () => {
  stopClock()
  open()
  server.use(http.all('*/api/*', HttpResponse.error))
  for (let times = 0; times < 5; times++) await pass(10)
  const words = screen.getByText(/^The server could not be reached\. The connections below/)
  const texts = recordTexts()
  for (let seconds = 0; seconds < 25; seconds++) await pass(1000)
  expect(words).toBeVisible()
  expect(texts.filter((text) => !text.includes(words.textContent))).toEqual([])
  takeLog()
})

test.each<[path: string, failed: string | RegExp, then: string | RegExp]>([
  ['*/api/*', /^The server could not be reached/, /^Sent once/],
  ['*/summary', 'The number of sent messages could not be loaded.', /^Sent once/],
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
  const { calls, state } = open({ person: 'ann', features: [...features, 'sessions'] })
  await screen.findByText(/^Disconnect also/)
  const words = 'Your session has ended. Connect HubSpot to find your settings again.'
  let loads = 1
  const expectWords = async (number: number) => {
    loads += 1
    await waitFor(() => expect(calls('GET /health')).toHaveLength(loads))
    await screen.findByRole('button', { name: 'Connect Slack' })
    expect(screen.queryAllByText(words)).toHaveLength(number)
  }
  state.connected.clear()
  for (const person of ['nobody', 'bob', 'nobody']) {
    state.person = person
    lookAgain()
    await expectWords(Number(person === 'nobody'))
  }
  // Another tab has connected as Ann again, and then signed out.
  for (const person of ['ann', 'nobody']) {
    state.person = person
    void hearFromOtherTab(person)
    await expectWords(0)
  }
})

test('before a disconnect of the CRM, its row says what it removes; meanwhile, the button says so', async () => {
  const { user } = open()
  const answer = hold('delete', '*/api/hubspot/disconnect')
  const note = await screen.findByText('Disconnect also clears the deal names in Activity.')
  const row = note.closest('li') as HTMLElement
  const button = within(row).getByRole('button', { name: 'Disconnect HubSpot' })
  await user.click(button)
  expect(button).toHaveTextContent('Disconnecting…')
  expect(button).toHaveAccessibleName('Disconnecting… HubSpot')
  answer()
  await waitFor(() => expect(button).toHaveTextContent(/^Connect$/))
  expect(note).not.toBeInTheDocument()
})
