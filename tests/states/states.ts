import { HttpResponse, http, type RequestHandler } from 'msw'
import type { ActivityItem } from '../../contract/features/activity.ts'
import { type ActivityBackend, sentItem } from '../msw/activity.ts'
import { createBackend } from '../msw/handlers.ts'

/** What a user does to reach the state: the label of a button or a checkbox. */
type Step = { press: string } | { tick: string }

/** One state of the dashboard. The page /states shows it, and the browser tests check it. */
export interface State {
  name: string
  address: string
  /** Creates a new backend for each use, because a backend has state. */
  backend: () => RequestHandler[]
  steps?: readonly Step[]
  /** The texts that the page shows once the state is reached, and not before. */
  shows: string | readonly string[]
}

const two = { rules: ['deal-stage-changed', 'deal-closed'] }
const sessions = { ...two, features: ['sessions'] }
const beyond = { features: ['activity', 'preview', 'test-message'] }
const stage = 'Notify me when a deal stage changes'
const orphan = 'Notify me when a deal moves stage without a contact or company associated'

/** The backend of the tests. The handlers in `before` take precedence. */
const backend =
  (
    initial: {
      connected?: string[]
      rules?: string[]
      features?: string[]
      activity?: Partial<ActivityBackend>
    } = {},
    ...before: RequestHandler[]
  ) =>
  () => [
    ...before,
    ...createBackend({
      connected: new Set(initial.connected ?? ['hubspot', 'slack']),
      rules: initial.rules ?? [],
      features: initial.features,
      activity: initial.activity ?? {},
    }).handlers,
  ]

const health = '*/health'
const status = '*/api/:provider/status'
const rules = '*/api/notifications/rules'
const callback = '*/api/:provider/callback'
const session = '*/api/session'
const messages = '*/api/notifications/activity'
const summary = '*/api/notifications/summary'
const preview = '*/api/notifications/preview'

const json = (path: string, body: object) => http.get(path, () => HttpResponse.json(body))
const silence = () => new Promise<never>(() => {})
// The page repeats a read that fails in another way.
const fault = () => new HttpResponse(null, { status: 403 })
const hourMs = 60 * 60 * 1000
const message = (
  id: string,
  hoursAgo: number,
  deal: string | null,
  more: Partial<ActivityItem>,
): ActivityItem => {
  const item = sentItem(id, {
    rule: 'deal-stage-changed',
    from: 'Qualified to buy',
    to: 'Presentation scheduled',
  })
  const at = new Date(Date.now() - hoursAgo * hourMs).toISOString()
  return { ...item, at, deal: { name: deal, url: item.deal?.url ?? '' }, ...more }
}

const longName = 'Globex expansion: all offices in the north, the south and overseas'

export const messagesInEveryState: readonly ActivityItem[] = [
  message('next', 0.02, 'Umbrella rollout', { state: 'waiting', tries: 0 }),
  message('pause', 0.1, 'Initech pilot', {
    state: 'waiting',
    reason: 'Slack asks for a pause',
    nextTryAt: new Date(Date.now() + hourMs / 4).toISOString(),
  }),
  message('won', 1, 'Acme renewal', {
    rule: 'deal-closed',
    from: 'Contract sent',
    to: 'Closed won',
  }),
  message('test', 2, null, { deal: null, rule: null, from: null, to: null }),
  message('archived', 26, longName, {
    state: 'failed',
    reason: 'Slack no longer accepts the connection. Connect Slack again',
    tries: 3,
  }),
  message('said', 27, 'Hooli licences', {
    state: 'skipped',
    reason: "another user's rule already reported this change in the channel",
  }),
  message('unnamed', 50, null, { rule: 'a-rule-of-tomorrow', from: null, channel: null }),
]

const manyMessages = Array.from({ length: 30 }, (_, n) =>
  message(`${n}`, n, `Deal number ${n + 1}`, {}),
)

/** The backend of the tests with these messages. The handlers in `before` take precedence. */
const activity =
  (items: readonly ActivityItem[] = messagesInEveryState, ...before: RequestHandler[]) =>
  () => [
    ...before,
    ...createBackend({
      features: ['activity', 'activity-search', 'retry-all', 'test-message'],
      activity: {
        items: items.map((item) => ({ ...item })),
        summary: items.length === 0 ? {} : { daily: twoWeeks(), waiting: 2 },
      },
    }).handlers,
  ]

function twoWeeks() {
  const sent = [12, 18, 9, 22, 31, 4, 2, 17, 25, 28, 14, 19, 6, 11]
  const failed = [0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 9, 0, 0, 1]
  return sent.map((count, index) => ({
    date: new Date(Date.now() - (13 - index) * 24 * hourMs).toISOString().slice(0, 10),
    sent: count,
    failed: failed[index] ?? 0,
  }))
}

const dashboard: readonly Omit<State, 'address'>[] = [
  {
    name: 'Health is being checked',
    backend: backend({}, http.get(health, silence)),
    shows: 'Loading…',
  },
  {
    name: 'Service Unavailable',
    backend: backend({}, http.get(health, fault)),
    shows: 'Backend service is unavailable.',
  },
  {
    name: 'The dashboard is loading',
    backend: backend({}, http.get(status, silence)),
    shows: 'Loading dashboard...',
  },
  {
    name: 'The rules are loading',
    backend: backend({}, http.get(rules, silence)),
    shows: 'Loading rules…',
  },
  {
    name: 'First visit: nothing connected, no rules',
    backend: backend({ connected: [] }),
    shows: 'No notification rules defined',
  },
  {
    name: 'One service connected',
    backend: backend({ connected: ['hubspot'], ...two }),
    shows: 'Connections required',
  },
  {
    name: 'Connections with their names, and one that broke',
    backend: backend(
      two,
      json('*/api/hubspot/status', {
        connected: false,
        reason: 'HubSpot no longer accepts the connection.',
        since: '2026-01-02T03:04:05.000Z',
      }),
      json('*/api/slack/status', {
        connected: true,
        account: 'A workspace with quite a long name',
        channel: '#sales-north-and-south',
      }),
    ),
    shows: 'HubSpot no longer accepts the connection.',
  },
  {
    name: 'Statuses and rules cannot be loaded',
    backend: backend({}, http.get(status, fault), http.get(rules, fault)),
    shows: 'No notification rules defined',
  },
  {
    name: 'Unsaved changes',
    backend: backend(two),
    steps: [{ tick: orphan }],
    shows: 'Unsaved changes',
  },
  {
    name: 'Saving',
    backend: backend({}, http.post(rules, silence)),
    steps: [{ tick: stage }, { press: 'Save' }],
    shows: 'Saving…',
  },
  {
    name: 'Saved',
    backend: backend(two),
    steps: [{ tick: orphan }, { press: 'Save' }],
    shows: '✅ Rules saved successfully!',
  },
  {
    name: 'Save failed',
    backend: backend({}, http.post(rules, fault)),
    steps: [{ tick: stage }, { press: 'Save' }],
    shows: '❌ Failed to save rules, try again.',
  },
  {
    name: 'The sign-in in front of the page has ended',
    backend: () => {
      let isSignedIn = true
      const before = http.all('*/api/*', ({ request }) => {
        isSignedIn &&= request.method === 'GET'
        return isSignedIn ? undefined : HttpResponse.html('<!doctype html>')
      })
      return backend({}, before)()
    },
    steps: [{ tick: stage }, { press: 'Save' }],
    shows: ['❌ Failed to save rules, try again.', 'Your unsaved changes stay.'],
  },
  {
    name: 'Save refused: a service is not connected',
    backend: backend({ connected: ['hubspot'] }),
    steps: [{ tick: stage }, { press: 'Save' }],
    shows: '❌ Please connect both HubSpot and Slack before saving rules.',
  },
  {
    name: 'Sign out failed',
    backend: backend(sessions, http.delete(session, fault)),
    steps: [{ press: 'Account' }, { press: 'Sign out of this browser' }],
    shows: '❌ Failed to sign out, try again.',
  },
  {
    name: 'Opened at another address than the server expects',
    backend: backend({}, json(health, { status: 'ok', appUrl: 'https://dealbell.example.com' })),
    shows: 'do not work at this address',
  },
  {
    name: 'Stand-ins with links',
    backend: backend(
      { ...two, ...beyond },
      http.get(health, () =>
        HttpResponse.json({
          status: 'ok',
          features: [...beyond.features, 'sessions'],
          standIns: { hubspot: '/sandbox/hubspot/deals', slack: '/sandbox/slack' },
        }),
      ),
      http.get('*/api/hubspot/status', () =>
        HttpResponse.json({ connected: true, account: 'acme-demo.example' }),
      ),
      http.get('*/api/slack/status', () =>
        HttpResponse.json({ connected: true, account: 'Acme', channel: '#sales-floor' }),
      ),
    ),
    shows: ['Open the HubSpot deals', 'Open #sales-floor', 'stand-in on this server'],
  },
  {
    name: 'Messages may be late',
    backend: backend(
      two,
      json('*/api/hubspot/status', {
        connected: true,
        account: 'acme-demo.example',
        late: 'Changes in HubSpot may arrive up to an hour late.',
      }),
    ),
    shows: 'Changes in HubSpot may arrive up to an hour late.',
  },
  {
    name: 'What each rule has sent or would have sent',
    backend: () =>
      backend({
        ...beyond,
        rules: ['deal-closed'],
        activity: {
          summary: {
            rules: {
              'deal-closed': {
                sent: 12,
                failed: 0,
                lastSentAt: new Date(Date.now() - 200_000).toISOString(),
              },
            },
          },
        },
      })(),
    shows: ['Sent 12 times in 14 days', 'Would have sent 31 messages in the last 7 days'],
  },
  {
    name: 'An example of a message',
    backend: backend({
      ...beyond,
      activity: {
        preview: {
          days: 7,
          rules: { 'deal-stage-changed': 1204, 'deal-closed': 1, 'deal-stage-changed-orphan': 0 },
          samples: {
            'deal-closed': '🎉 Acme renewal was won (€12,000)',
            'deal-stage-changed':
              '➡️ Acme renewal moved from Appointment scheduled to Contract sent',
          },
          complete: false,
        },
      },
    }),
    steps: [{ press: 'Show an example: when a deal stage changes' }],
    shows: '➡️ Acme renewal moved from Appointment scheduled to Contract sent',
  },
  {
    name: 'Summary and preview are loading',
    backend: backend({ ...beyond, ...two }, http.get(summary, silence), http.get(preview, silence)),
    shows: ['Counting…', 'Looking at the last 7 days…'],
  },
  {
    name: 'Summary and preview cannot be loaded',
    backend: backend({ ...beyond, ...two }, http.get(summary, fault), http.get(preview, fault)),
    shows: [
      'The number of sent messages could not be loaded.',
      'The preview of this rule could not be loaded.',
    ],
  },
  {
    name: 'A broken connection holds up messages',
    backend: backend(
      {
        ...beyond,
        ...two,
        activity: {
          summary: {
            waiting: 2,
            failedWhileBroken: { count: 3, more: false, providers: ['slack'] },
          },
        },
      },
      json('*/api/slack/status', { connected: false, reason: 'The channel is archived.' }),
    ),
    shows: '2 messages are waiting. 3 failed while disconnected.',
  },
  {
    name: 'Messages failed while Slack was disconnected',
    backend: () =>
      backend({
        ...two,
        features: [...beyond.features, 'retry-all'],
        activity: { items: messagesInEveryState.map((item) => ({ ...item })) },
      })(),
    shows: '1 message failed while Slack was disconnected.',
  },
  {
    name: 'A test message was sent',
    backend: backend({ ...beyond, ...two }),
    steps: [{ press: 'Send a test message' }],
    shows: 'Sent to #sales-floor.',
  },
]

export const states: readonly State[] = [
  ...dashboard.map((state) => ({ ...state, address: '/' })),
  ...(['HubSpot', 'Slack'] as const).flatMap((name): State[] => {
    const address = `/${name.toLowerCase()}/callback`
    return [
      {
        name: `${name} callback: working`,
        address: `${address}?code=abc`,
        backend: backend({}, http.get(callback, silence)),
        shows: `Handling ${name} OAuth Callback...`,
      },
      {
        name: `${name} callback: failed`,
        address: `${address}?code=abc`,
        backend: backend({}, http.get(callback, fault)),
        shows: `${name} connection failed: The server answered with an error (403)`,
      },
      {
        name: `${name} callback: no code`,
        address,
        backend: backend(),
        shows: `${name} connection failed: Missing ${name} code`,
      },
    ]
  }),
  {
    name: 'Connect',
    address: '/connect/hubspot',
    backend: backend({ connected: [] }),
    shows: 'HubSpot is not connected.',
  },
  {
    name: 'Connected after all',
    address: '/connect/hubspot',
    backend: backend({ connected: ['hubspot'] }),
    shows: 'HubSpot is connected.',
  },
  {
    name: 'Contact Support',
    address: '/contact',
    backend: backend(),
    shows: 'Having issues with notifications or setup?',
  },
  {
    name: 'Unknown address, or a screen that failed',
    address: '/no/such/page',
    backend: backend(),
    shows: 'Something went wrong. Please try again later.',
  },
  {
    name: 'Activity: messages in every state',
    address: '/activity',
    backend: activity(),
    shows: ['Sent to #sales-floor', 'Waiting to be sent', 'There are no older messages.'],
  },
  {
    name: 'Activity: only failed messages',
    address: '/activity?state=failed',
    backend: activity(),
    shows: [
      'Not sent: Slack no longer accepts the connection. Connect Slack again.',
      '1 message failed while Slack was disconnected.',
    ],
  },
  {
    name: 'Activity: only the failed messages of a search',
    address: '/activity?state=failed&q=globex',
    backend: activity(),
    shows: '1 failed message matches.',
  },
  {
    name: 'Activity: signed out',
    address: '/activity',
    backend: () =>
      createBackend({ person: 'nobody', features: ['activity', 'activity-search'] }).handlers,
    shows: 'Connect HubSpot on the dashboard to see your messages.',
  },
  {
    name: 'Activity: nothing has happened',
    address: '/activity',
    backend: activity([]),
    shows: ['Move a deal in HubSpot, or send a test message.', 'Nothing sent yet'],
  },
  {
    name: 'Activity: loading',
    address: '/activity',
    backend: activity([], http.get(messages, silence), http.get(summary, silence)),
    shows: ['Loading messages…', 'Loading the chart…'],
  },
  {
    name: 'Activity: failed to load',
    address: '/activity',
    backend: activity([], http.get(messages, fault), http.get(summary, fault)),
    shows: ['The messages could not be loaded', 'The chart could not be loaded'],
  },
  {
    name: 'Activity: older messages fail to load',
    address: '/activity',
    backend: () =>
      activity(
        manyMessages,
        http.get(messages, ({ request }) =>
          request.url.includes('before=') ? fault() : undefined,
        ),
      )(),
    steps: [{ press: 'Load older' }],
    shows: '❌ Failed to load older messages. The server answered with an error (403).',
  },
  {
    name: 'Activity: a message that cannot be sent again',
    address: '/activity?state=failed',
    backend: activity(undefined, http.post(`${messages}/:id/retry`, fault)),
    steps: [{ press: `Send again: ${longName}` }],
    shows: '❌ Failed to send it again.',
  },
]

/** @throws if no state has this name. */
export function stateOf(name: string): State {
  const state = states.find((state) => state.name === name)
  if (state === undefined) throw new Error(`There is no state '${name}'`)
  return state
}

/**
 * Runs in a page before the app and drops all timers of 3 s and more. So a call without an answer never
 * times out, and a failed authorization does not lead on (§9).
 * Uses nothing from outside, because the browser tests send its source to the page.
 */
export function holdTime(): void {
  const { setTimeout } = window
  window.setTimeout = ((run: TimerHandler, delayMs = 0, ...rest: unknown[]) =>
    delayMs >= 3000 ? 0 : setTimeout(run, delayMs, ...rest)) as typeof setTimeout
}
