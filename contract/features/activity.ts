import * as v from 'valibot'
import type { Feature } from '../endpoints.ts'
import { count, shownText, time } from '../fields.ts'

/**
 * What each rule has sent. Query: `days`, the number of days until today, 1 to 30, by default 14; and
 * `zone`, the time zone in which days begin, such as `Europe/Berlin`. If it is missing or unknown, it is UTC.
 */
export const summaryCall = {
  method: 'GET',
  path: '/api/notifications/summary',
  feature: 'activity',
} as const

/**
 * The messages of this browser's user, the newest first. Query: `limit`, 1 to 100, by default 25;
 * `before`, the `next` of any earlier answer: a position that is valid with every `state`, and without
 * one; and `state`, to list only one state.
 *
 * Or `ids`, up to 100 ids of messages, separated by commas: these messages, in any state. Ids of which the
 * user has no message are left out. The other parameters do not apply, and `next` is null.
 */
export const activityCall = {
  method: 'GET',
  path: '/api/notifications/activity',
  feature: 'activity',
} as const

/** Sends a failed message again. 202; 409 `not_failed`; 404 `no_such_message`. */
export const retryCall = {
  method: 'POST',
  path: '/api/notifications/activity/:id/retry',
  feature: 'activity',
} as const

/** Returns the path of `retryCall` for one message. */
export function retryPath(id: string): string {
  return retryCall.path.replace(':id', () => encodeURIComponent(id))
}

export const summaryAnswer = v.object({
  days: count,
  /** By rule id. A rule that has sent nothing may be missing. */
  rules: v.record(
    v.string(),
    v.object({
      sent: count,
      failed: count,
      /** When the message about the newest change was sent. */
      lastSentAt: v.nullable(time),
    }),
  ),
  /**
   * One entry for each day, the oldest first. The date has the form `2026-11-21`. A message counts on the
   * day on which its deal changed.
   */
  daily: v.array(v.object({ date: v.pipe(v.string(), v.isoDate()), sent: count, failed: count })),
  /** How many messages are waiting to be sent. A backend may count only the first thousands. */
  waiting: count,
  /**
   * The newest messages, up to 1,000, that failed because a connection no longer worked, and that were not sent
   * again. `providers` lists whose connection that was, such as `slack`. Null if this is not known.
   */
  failedWhileBroken: v.optional(
    v.nullable(v.object({ count, more: v.boolean(), providers: v.array(v.string()) })),
    null,
  ),
  /** The providers to connect before any message can be sent. Null if this is not known. */
  connectFirst: v.optional(v.nullable(v.array(v.string())), null),
})
export type Summary = v.InferOutput<typeof summaryAnswer>

/**
 * What became of a message. Waiting: it will be sent, or tried again. Skipped: no message was needed.
 */
export const activityStates = ['sent', 'waiting', 'failed', 'skipped'] as const
export type ActivityState = (typeof activityStates)[number]

/** One message. What a backend does not know is null. */
const activityItem = v.object({
  /** It contains no comma. */
  id: v.string(),
  /** When the deal changed. */
  at: time,
  state: v.picklist(activityStates),
  /** The id of the rule that the message is about. */
  rule: shownText,
  /** Null for a test message. The name is null if it is not known. `id` is the deal's id in the CRM. */
  deal: v.nullable(v.object({ name: shownText, id: v.optional(v.string()), url: v.string() })),
  /** The old value, such as the label of a stage. */
  from: shownText,
  to: shownText,
  /** The name of the channel, such as `#sales`. */
  channel: shownText,
  /** Why it is in this state: words that can follow 'Not sent: ', without a full stop at the end. */
  reason: shownText,
  /** The reason has gone since: the message can be sent now. */
  isOver: v.optional(v.boolean()),
  /** How often the message was sent to the chat, or tried. */
  tries: count,
  /** When the next try is, if it waits for a time. */
  nextTryAt: v.nullable(time),
})
export type ActivityItem = v.InferOutput<typeof activityItem>

/** How many messages there are. If `more`, only the newest were counted. */
const stateCount = v.object({ count, more: v.boolean() })

/** One page of messages. */
export const activityAnswer = v.object({
  items: v.array(activityItem),
  /** The `before` of the next, older page; null if there is none. */
  next: v.nullable(v.string()),
  /** When the oldest message changed that `q` or `rule` looked at, if older ones are left and the page is not full. */
  searchedTo: v.optional(v.nullable(time)),
  /** What `counts` asks for. The parameter `state` does not matter. */
  counts: v.optional(
    v.object({ sent: stateCount, waiting: stateCount, failed: stateCount, skipped: stateCount }),
  ),
  /**
   * With `counts=true` and `state=failed`: how many messages a call of retry-all.ts sends again with the same `q`,
   * `rule` and `day`. Test messages, for example, are not sent again. Missing: that call does not know these parameters.
   */
  retryable: v.optional(stateCount),
})
export type ActivityCounts = Record<ActivityState, v.InferOutput<typeof stateCount>>
export type Activity = v.InferOutput<typeof activityAnswer>

export const activity = {
  name: 'activity',
  shows:
    'beside each saved rule what it sent, beside a broken connection how many messages wait or have failed, and the page /activity',
  calls: [
    {
      call: summaryCall,
      answer: summaryAnswer,
      example: {
        days: 1,
        rules: { 'deal-closed': { sent: 2, failed: 0, lastSentAt: '2026-11-21T10:00:00.000Z' } },
        daily: [{ date: '2026-11-21', sent: 2, failed: 0 }],
        waiting: 0,
        failedWhileBroken: null,
        connectFirst: [],
      },
    },
    {
      call: activityCall,
      answer: activityAnswer,
      example: {
        items: [
          {
            id: '1',
            at: '2026-11-21T10:00:00.000Z',
            state: 'sent',
            rule: 'deal-closed',
            deal: { name: 'Acme renewal', id: '9001', url: 'https://crm.example/deals/9001' },
            from: 'Contract sent',
            to: 'Closed won',
            channel: '#sales-floor',
            reason: null,
            tries: 1,
            nextTryAt: null,
          },
        ],
        next: null,
      },
    },
    { call: retryCall },
  ],
} as const satisfies Feature
