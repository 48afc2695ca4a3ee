import { HttpResponse, type HttpResponseResolver, type RequestHandler } from 'msw'
import {
  type Activity,
  type ActivityCounts,
  type ActivityItem,
  activity,
  activityCall,
  activityStates,
  retryCall,
  type Summary,
  summaryCall,
} from '../../contract/features/activity.ts'
import { type Preview, preview, previewCall } from '../../contract/features/preview.ts'
import { type RetryAllAnswer, retryAllCall } from '../../contract/features/retry-all.ts'
import { type TestAnswer, testCall, testMessage } from '../../contract/features/test-message.ts'
import { availableRuleIds } from '../../contract/rules.ts'

/** What the backend in memory knows beyond section 7. */
export interface ActivityBackend {
  /** The messages of the user, the newest first. */
  items: ActivityItem[]
  /** Overrides what the summary counts. */
  summary: Partial<Summary>
  preview: Preview
  /** What becomes of a test message, or why it fails. */
  test: TestAnswer | { status: 409 | 429 | 502; code: string; message: string }
}

export type Params = Record<'provider' | 'id', string>

/** Creates the handler of a call of contract/. It answers only if the call's feature is listed. */
export type On = (
  call: { method: 'GET' | 'POST' | 'DELETE'; path: string; feature?: string },
  answer: HttpResponseResolver<Params>,
) => RequestHandler

const [, { example: activityExample }] = activity.calls
const [{ example: previewExample }] = preview.calls
const [{ example: testExample }] = testMessage.calls

/** A message that was sent at noon UTC on 20 November 2026. */
export const sentItem = (id: string, more: Partial<ActivityItem> = {}): ActivityItem => ({
  ...activityExample.items[0],
  id,
  at: '2026-11-20T12:00:00.000Z',
  deal: { name: `Deal ${id}`, url: `https://app.hubspot.com/contacts/1/record/0-3/${id}` },
  ...more,
})

export function createActivityBackend(initial: Partial<ActivityBackend> = {}): ActivityBackend {
  return {
    items: [],
    summary: {},
    preview: {
      ...previewExample,
      rules: {
        ...Object.fromEntries([...availableRuleIds].map((id) => [id, 0])),
        ...previewExample.rules,
      },
    },
    test: testExample,
    ...initial,
  }
}

/** The handlers of calls whose answers depend on the messages or the connections. */
export function activityHandlers(
  state: ActivityBackend,
  {
    on,
    offers,
    isConnected,
    refuse,
  }: {
    on: On
    /** Whether a feature is listed. */
    offers: (feature: string) => boolean
    isConnected: (which: 'crm' | 'both') => boolean
    refuse: (status: number, code: string, message: string) => Response
  },
) {
  return [
    on(summaryCall, ({ request }) => {
      const days = Number(new URL(request.url).searchParams.get('days') ?? 14)
      return HttpResponse.json(summaryOf(state, days))
    }),

    on(activityCall, ({ request }) => {
      const query = new URL(request.url).searchParams
      const ids = query.get('ids')?.split(',')
      if (ids !== undefined) {
        if (ids.length > 100) return refuse(400, 'invalid_query', 'These are too many ids.')
        const items = state.items.filter(({ id }) => ids.includes(id))
        return HttpResponse.json({ items, next: null } satisfies Activity)
      }
      const limit = Number(query.get('limit') ?? 25)
      const before = query.get('before')
      const wanted = query.get('state')
      const found = state.items.filter(isFound(query))
      const older = state.items.findIndex(({ id }) => id === before) + 1
      const left = found.filter(
        (item) => (wanted === null || item.state === wanted) && state.items.indexOf(item) >= older,
      )
      const items = left.slice(0, limit)
      const next = left.length > limit ? (items.at(-1)?.id ?? null) : null
      const counts = countsOf(found)
      const isCounted = offers('activity-search') && query.get('counts') === 'true'
      const answer: Activity = { items, next, ...(isCounted && { counts }) }
      if (isCounted && wanted === 'failed') answer.retryable = counts.failed
      return HttpResponse.json(answer)
    }),

    on(retryCall, ({ params }) => {
      const item = state.items.find(({ id }) => id === params.id)
      if (item === undefined) return refuse(404, 'no_such_message', 'There is no such message.')
      if (item.state !== 'failed') return refuse(409, 'not_failed', 'The message has not failed.')
      Object.assign(item, { state: 'waiting', reason: null, nextTryAt: null, tries: 0 })
      return new HttpResponse(null, { status: 202 })
    }),

    on(retryAllCall, ({ request }) => {
      const query = new URL(request.url).searchParams
      const onlyBroken = query.get('because') === 'broken'
      const failed = state.items
        .filter(isFound(query))
        .filter((item) => item.state === 'failed' && (!onlyBroken || isOfBreak(item)))
      for (const item of failed) Object.assign(item, { state: 'waiting', reason: null, tries: 0 })
      const answer: RetryAllAnswer = { queued: failed.length, more: false }
      return HttpResponse.json(answer, { status: 202 })
    }),

    on(previewCall, () => {
      if (!isConnected('crm')) return refuse(409, 'not_connected', 'HubSpot is not connected.')
      return HttpResponse.json(state.preview)
    }),

    on(testCall, () => {
      if (!isConnected('both')) {
        return refuse(409, 'not_connected', 'HubSpot and Slack must both be connected.')
      }
      if ('status' in state.test) {
        return refuse(state.test.status, state.test.code, state.test.message)
      }
      const ofNoDeal = { rule: null, deal: null, from: null, to: null }
      const at = new Date().toISOString()
      state.items.unshift(sentItem(crypto.randomUUID(), { at, ...ofNoDeal, ...state.test }))
      return HttpResponse.json(state.test, { status: state.test.state === 'sent' ? 200 : 202 })
    }),
  ]
}

/** Whether the parameters `q`, `rule` and `day` find an item. */
function isFound(query: URLSearchParams): (item: ActivityItem) => boolean {
  const [q, rule, day] = ['q', 'rule', 'day'].map((name) => query.get(name))
  return (item) =>
    (!q || item.deal?.name?.toLowerCase().includes(q.toLowerCase()) === true) &&
    (!rule || item.rule === rule) &&
    // The days of the backend in memory begin in UTC.
    (!day || item.at.startsWith(day))
}

/** How many items are in each state. */
function countsOf(items: readonly ActivityItem[]): ActivityCounts {
  const counts = activityStates.map((state) => [
    state,
    { count: items.filter((item) => item.state === state).length, more: false },
  ])
  return Object.fromEntries(counts)
}

/** Whether a message failed because a connection was broken. */
const isOfBreak = ({ state, reason }: ActivityItem) =>
  state === 'failed' && reason?.endsWith('again') === true

/** Counts the items, as the server does. Test messages belong to no rule. */
function summaryOf({ items, summary }: ActivityBackend, days: number): Summary {
  const dates = Array.from({ length: days }, (_, at) =>
    new Date(Date.now() - (days - 1 - at) * 86_400_000).toISOString().slice(0, 10),
  )
  const count = (some: readonly ActivityItem[], state: ActivityItem['state']) =>
    some.filter((item) => item.state === state).length
  const byRule = Map.groupBy(
    items.filter(({ rule }) => rule !== null),
    ({ rule }) => rule ?? '',
  )
  return {
    days,
    rules: Object.fromEntries(
      [...byRule].map(([rule, some]) => [
        rule,
        {
          sent: count(some, 'sent'),
          failed: count(some, 'failed'),
          lastSentAt: some.find(({ state }) => state === 'sent')?.at ?? null,
        },
      ]),
    ),
    daily: dates.map((date) => {
      const some = items.filter(({ at }) => at.startsWith(date))
      return { date, sent: count(some, 'sent'), failed: count(some, 'failed') }
    }),
    waiting: count(items, 'waiting'),
    failedWhileBroken: { count: items.filter(isOfBreak).length, more: false, providers: ['slack'] },
    connectFirst: [],
    ...summary,
  }
}
