import * as v from 'valibot'
import type { Feature } from './endpoints.ts'
import { visibleText } from './visible.ts'

/**
 * The calls beyond §7 that tell users whether notifications work. They have their own file because the
 * dashboard loads their code only if the backend offers them.
 */
export const activityEndpoints = {
  /**
   * What each rule has sent. Query: `days`, the number of days until today, 1 to 30, by default 14; and
   * `zone`, the time zone in which days begin, such as `Europe/Berlin`. If it is missing or unknown, it is UTC.
   */
  summary: { method: 'GET', path: '/api/notifications/summary', feature: 'activity' },
  /**
   * The messages of this browser's user, the newest first. Query: `limit`, 1 to 100, by default 25;
   * `before`, the `next` of any earlier answer: a position that is valid with every `state`, and without
   * one; and `state`, to list only one state.
   *
   * Or `ids`, up to 100 ids of messages, separated by commas: these messages, in any state. Ids of which the
   * user has no message are left out. The other parameters do not apply, and `next` is null.
   */
  activity: { method: 'GET', path: '/api/notifications/activity', feature: 'activity' },
  /**
   * The same list with further parameters, in any combination: `q`, a part of the deal's name in any case, up to
   * 100 characters; `rule`, the id of a rule; `day`, such as `2026-11-21`, and the `zone` in which it begins;
   * `counts=true`, to count what the same parameters find in each state.
   *
   * A backend may look at so many messages alone that it answers fast, and then answers fewer than `limit`, or
   * none, with a `next` and `searchedTo`. The `next` goes on from there.
   */
  search: { method: 'GET', path: '/api/notifications/activity', feature: 'activity-search' },
  /** Sends a failed message again. 202; 409 `not_failed`; 404 `no_such_message`. */
  retry: { method: 'POST', path: '/api/notifications/activity/:id/retry', feature: 'activity' },
  /**
   * Sends the newest failed messages again, up to 1,000. Query: `because=broken` sends only those that failed because a
   * connection no longer worked (`failedWhileBroken` of the summary counts them). `q`, `rule`, `day` and `zone`, as in
   * `search`, send only what they find (`retryable` counts them). The dashboard sends these only to a backend that
   * answers `retryable`. 202; 409 if a service is not connected; 429 if there were too many calls.
   */
  retryAll: {
    method: 'POST',
    path: '/api/notifications/activity/retry-all',
    feature: 'retry-all',
  },
  /**
   * What each rule alone would have sent. Query: `days`, 1 to 7, by default 7. 409 if the CRM is not
   * connected; 502 with a sentence if it does not say what changed.
   */
  preview: { method: 'GET', path: '/api/notifications/preview', feature: 'preview' },
  /**
   * Sends a test message. 200; 202 if it still waits; 409 if a service is not connected; 502 with a
   * sentence if it cannot be sent; 429 if the last one was less than ten seconds ago.
   */
  test: { method: 'POST', path: '/api/notifications/test', feature: 'test-message' },
} as const satisfies Record<string, { method: string; path: string; feature: Feature }>

/** Returns the path of `retry` for one message. */
export function retryPath(id: string): string {
  return activityEndpoints.retry.path.replace(':id', () => encodeURIComponent(id))
}

const count = v.pipe(v.number(), v.integer(), v.minValue(0))
/** A time in ISO 8601. */
const time = v.pipe(v.string(), v.isoTimestamp())
/** A text, or null if there is none. One of which a reader sees nothing counts as null. */
const shownText = v.pipe(
  v.nullable(v.string()),
  v.transform((text) => visibleText(text) ?? null),
)

/** The answer of `summary`. */
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
  /** How many messages are waiting to be sent. */
  waiting: count,
  /** How many messages have failed since a connection of the user broke. Null if this is not known. */
  failedSinceBroken: v.optional(v.nullable(count), null),
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

/** The answer of `retryAll`. */
export const retryAllAnswer = v.object({
  /** How many messages will be sent again. */
  queued: count,
  /** Whether older ones may be left, which stay failed. */
  more: v.boolean(),
})
export type RetryAllAnswer = v.InferOutput<typeof retryAllAnswer>

/**
 * What became of a message. Waiting: it will be sent, or tried again. Skipped: no message was needed.
 */
export const activityStates = ['sent', 'waiting', 'failed', 'skipped'] as const
export type ActivityState = (typeof activityStates)[number]

/** One item of `activity`. What a backend does not know is null. */
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
  /** How often the message was sent to the chat, or tried. */
  tries: count,
  /** When the next try is, if it waits for a time. */
  nextTryAt: v.nullable(time),
})
export type ActivityItem = v.InferOutput<typeof activityItem>

/** How many messages there are. If `more`, only the newest were counted. */
const stateCount = v.object({ count, more: v.boolean() })

/** The answer of `activity`: one page. */
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
   * With `counts=true` and `state=failed`: how many messages `retryAll` sends again with the same `q`, `rule` and
   * `day`. Test messages, for example, are not sent again. Missing: `retryAll` does not know these parameters.
   */
  retryable: v.optional(stateCount),
})
export type ActivityCounts = Record<ActivityState, v.InferOutput<typeof stateCount>>
export type Activity = v.InferOutput<typeof activityAnswer>

/** The answer of `preview`. */
export const previewAnswer = v.object({
  days: count,
  /** How many messages each rule alone would have sent, by rule id. */
  rules: v.record(v.string(), count),
  /** The newest message of each rule, as plain text. A rule without a message is missing. */
  samples: v.record(v.string(), v.string()),
  /** False if not all changes were read, so there may be more messages. */
  complete: v.boolean(),
})
export type Preview = v.InferOutput<typeof previewAnswer>

/** The answer of `test`. If it waits, `reason` and `nextTryAt` are those of its item in `activity`. */
export const testAnswer = v.object({
  state: v.picklist(['sent', 'waiting']),
  channel: shownText,
  reason: v.optional(shownText, null),
  nextTryAt: v.optional(v.nullable(time), null),
})
export type TestAnswer = v.InferOutput<typeof testAnswer>
