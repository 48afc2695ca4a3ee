import { screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import type { Summary } from '../../contract/features/activity.ts'
import type { Preview } from '../../contract/features/preview.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, hold, lookAgain, openApp, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'

const features = ['activity', 'preview', 'test-message']
/** Opens the dashboard of a user who has connected both services. */
const open: typeof openApp = (initial, address) =>
  openApp({ connected: both(), features, ...initial }, address)
/** The answer of a connection that broke. */
const brokenSlack = () =>
  HttpResponse.json({ connected: false, reason: 'The channel is archived.' })
const ids = ['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan'] as const
const [stage, closed, orphan] = [
  'Notify me when a deal stage changes',
  'Notify me when a deal is signed or closed (won/lost)',
  'Notify me when a deal moves stage without a contact or company associated',
]
const box = (name: string | undefined) => screen.findByRole('checkbox', { name: name ?? '' })
const summaries = (calls: (start: string) => string[]) => calls('GET /api/notifications/summary')
const previews = (calls: (start: string) => string[]) => calls('GET /api/notifications/preview')

/** What the rules have sent: how often, minutes ago, and how many failed. */
const sent = (...rules: [sent: number, ago: number, failed?: number][]): Partial<Summary> => ({
  rules: Object.fromEntries(
    rules.map(([sent, ago, failed = 0], at) => [
      ids[at],
      { sent, failed, lastSentAt: new Date(Date.now() - ago * 60_000).toISOString() },
    ]),
  ),
})

test.each<[string[], string[]]>([
  [[], []],
  [['activity'], ['summary']],
  [['preview'], ['preview']],
  [['test-message'], []],
])('with the features %j, only their calls are made', async (listed, names) => {
  const { calls } = open({ rules: ['deal-closed'], features: listed })
  const untouched = await box(stage)
  if (names.includes('preview')) await screen.findByText(/^Would have sent 31 messages/)
  if (names.includes('summary')) await screen.findByText('No message yet.')
  if (listed.includes('test-message')) await screen.findByText('Send a test message')
  await settle()
  const made = calls('GET /api/notifications/').map((call) => call.split(/[/?]/)[3])
  expect(made.toSorted()).toEqual(['rules', ...names].toSorted())
  const times = (feature: string) => Number(listed.includes(feature))
  expect(screen.queryAllByText('Send a test message')).toHaveLength(times('test-message'))
  expect(screen.queryAllByRole('link', { name: 'Activity' })).toHaveLength(times('activity'))
  expect(untouched.hasAttribute('aria-describedby')).toBe(names.includes('preview'))
})

test('a saved rule says how often it has sent a message, and when the last one was', async () => {
  const summary = sent([12, 3, 2], [1, 60 * 5])
  const { calls } = open({ rules: [...ids], activity: { summary } })
  await screen.findByText(/^Sent 12 times/)
  expect(await box(stage)).toHaveAccessibleDescription(
    'Sent 12 times in 14 days, last 3 minutes ago · 2 failed',
  )
  expect(await box(closed)).toHaveAccessibleDescription('Sent once in 14 days, 5 hours ago')
  expect(await box(orphan)).toHaveAccessibleDescription(
    'No message yet. The next change sends one.',
  )
  expect(screen.queryByRole('button', { name: /example/ })).not.toBeInTheDocument()
  expect(summaries(calls)).toEqual([
    expect.stringMatching(/^GET \/api\/notifications\/summary\?days=14&zone=\w+/),
  ])
})

test.each([
  [31, true, 'Would have sent 31 messages in the last 7 days'],
  [1204, false, 'Would have sent at least 1,204 messages in the last 7 days'],
  [0, false, 'Would have sent no messages in the last 7 days, as far as is known'],
])('an unsaved rule says what it would send: %d, complete: %s', async (count, complete, text) => {
  const preview: Preview = { days: 7, rules: { 'deal-closed': count }, samples: {}, complete }
  open({ activity: { preview } })
  await screen.findByText(text)
  expect(await box(closed)).toHaveAccessibleDescription(text)
  // The backend may not know every rule.
  expect(await box(stage)).not.toHaveAccessibleDescription()
})

test('a tick does not change the sentence, and a save does', async () => {
  const { user } = open({ activity: { summary: sent([12, 3]) } })
  await screen.findByText(/^Would have sent 31/)
  const ticked = await box(stage)
  await user.click(ticked)
  expect(ticked).toHaveAccessibleDescription(/^Would have sent 31/)
  await user.click(screen.getByRole('button', { name: 'Save' }))
  await waitFor(() => expect(ticked).toHaveAccessibleDescription(/^Sent 12 times/))
})

test('an example of a message comes on request, and ticks nothing', async () => {
  const { user } = open({})
  const name = 'Show an example: when a deal is signed or closed (won/lost)'
  const button = await screen.findByRole('button', { name, expanded: false })
  const sample = '🎉 Acme renewal was won (€12,000)'
  expect(screen.queryByText(sample)).not.toBeInTheDocument()
  button.focus()
  await user.keyboard('{Enter}')
  expect(screen.getByText(sample)).toBeVisible()
  expect(button).toHaveFocus()
  expect(button).toHaveAttribute('aria-expanded', 'true')
  expect(button).toHaveAccessibleName(name.replace('Show an', 'Hide the'))
  expect(await box(closed)).not.toBeChecked()
  // The other rules have no message to show.
  expect(screen.getAllByRole('button', { name: / example: / })).toEqual([button])
  await user.click(button)
  expect(screen.queryByText(sample)).not.toBeInTheDocument()
})

test('the calls of the features start after those of section 7, and wait neither for the rules nor for a success', async () => {
  const { calls } = open()
  server.use(http.get('*/api/slack/status', brokenSlack))
  const answer = hold('get', '*/api/notifications/rules', withStatus(403))
  await screen.findByText('No message is waiting.')
  const first = calls().findIndex((call) => call.includes('summary'))
  expect(calls().slice(0, first).toSorted()).toEqual([
    'GET /api/hubspot/status',
    'GET /api/notifications/rules',
    'GET /api/slack/status',
    'GET /health',
  ])
  answer()
  await screen.findByText(/^Would have sent 31/)
  takeLog()
})

test('a preview that the backend refuses says so in its own sentence', async () => {
  const { handlers, user } = open()
  const sentence = 'HubSpot limits our calls. Wait a minute'
  const error = { code: 'limited', message: sentence }
  server.use(http.get('*/preview', () => HttpResponse.json({ error }, { status: 429 })))
  const words = `The preview of this rule could not be loaded. ${sentence}.`
  expect(await screen.findAllByText(words)).toHaveLength(availableRuleIds.size)
  takeLog()
  server.resetHandlers(...handlers)
  const answer = hold('get', '*/preview')
  await user.click(screen.getByRole('button', { name: 'Try again: a deal stage changes' }))
  // A new attempt does not take the words away.
  expect(screen.getAllByText(words)).toHaveLength(availableRuleIds.size)
  answer()
  await screen.findByText(/^Would have sent 31/)
})

test('the preview comes only while HubSpot is connected, and is forgotten with it', async () => {
  const { calls, state, user } = open({ connected: new Set(), rules: ['deal-closed'] })
  const unknown = await box(stage)
  await screen.findByText('No message yet.')
  await settle()
  expect(previews(calls)).toEqual([])
  expect(unknown).not.toHaveAttribute('aria-describedby')

  // The user connects in another tab.
  state.connected.add('hubspot')
  lookAgain()
  await screen.findByText(/^Would have sent 31/)

  state.activity.preview.rules = { 'deal-stage-changed': 5 }
  await user.click(screen.getByRole('button', { name: 'Disconnect HubSpot' }))
  await waitFor(() => expect(screen.queryByText(/have sent/)).not.toBeInTheDocument())

  // The preview of the next account is a new one.
  state.connected.add('hubspot')
  lookAgain()
  await screen.findByText(/^Would have sent 5 messages/)
  expect(previews(calls)).toHaveLength(2)
})

test('a summary or preview that fails says so, hides no rule, and can be tried again', async () => {
  const activity = { summary: sent([12, 3]) }
  const { handlers, user } = open({ rules: ['deal-stage-changed'], activity })
  server.use(http.get('*/summary', withStatus(400)), http.get('*/preview', withStatus(400)))
  const words = 'The number of sent messages could not be loaded.'
  await screen.findByText(words)
  // One rule is saved.
  expect(await screen.findAllByText('The preview of this rule could not be loaded.')).toHaveLength(
    availableRuleIds.size - 1,
  )
  expect(await box(stage)).toHaveAccessibleDescription(words)
  takeLog()
  server.resetHandlers(...handlers)
  await user.click(screen.getByRole('button', { name: 'Try again: a deal stage changes' }))
  await screen.findByText(/^Sent 12 times/)
  // The button has disappeared. Its rule has the focus, and its description is the answer.
  expect(await box(stage)).toHaveFocus()
})

test('a preview is asked for again until the backend has counted', async () => {
  stopClock()
  const preview: Preview = { days: 7, rules: {}, samples: {}, complete: false }
  const { calls, state } = open({ activity: { preview } })
  await settle()
  await pass(0)
  const about = () => screen.getByRole('checkbox', { name: stage })
  expect(about()).toHaveAccessibleDescription('Looking at the last 7 days…')
  // However long that takes.
  for (let n = 1; n <= 30; n++) await pass(2_000)
  expect(previews(calls)).toHaveLength(31)
  state.activity.preview = { ...preview, rules: { 'deal-stage-changed': 3 } }
  await pass(2_000)
  expect(about()).toHaveAccessibleDescription(/^Would have sent at least 3 messages/)
  // An account with too many deals never gets a complete answer.
  await pass(120_000)
  expect(previews(calls)).toHaveLength(32)
})

test('the summary refreshes every 15 seconds with one call for all rules, and says the time anew', async () => {
  stopClock()
  const { calls, state } = open({
    rules: ['deal-closed', 'deal-stage-changed'],
    activity: { summary: sent([0, 0], [12, 0.5]) },
  })
  const about = () => screen.getByRole('checkbox', { name: closed ?? '' })
  await settle()
  await pass(0)
  expect(about()).toHaveAccessibleDescription('Sent 12 times in 14 days, last a moment ago')
  for (let refresh = 0; refresh < 2; refresh += 1) await pass(15_000)
  expect(about()).toHaveAccessibleDescription('Sent 12 times in 14 days, last 1 minute ago')
  state.activity.summary = sent([0, 0], [13, 0.5])
  await pass(15_000)
  expect(about()).toHaveAccessibleDescription('Sent 13 times in 14 days, last a moment ago')
  expect(summaries(calls)).toHaveLength(4)
  // The preview is about a week, and was complete.
  lookAgain()
  await settle()
  expect(previews(calls)).toHaveLength(1)
})
