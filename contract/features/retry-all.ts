import * as v from 'valibot'
import type { Feature } from '../endpoints.ts'
import { count } from '../fields.ts'

/**
 * Sends the newest failed messages again, up to 1,000. Query: `because=broken` sends only those that failed because a
 * connection no longer worked (`failedWhileBroken` of the summary counts them). `q`, `rule`, `day` and `zone`, as in
 * a search, send only what they find (`retryable` counts them). The dashboard sends these only to a backend that
 * answers `retryable`. 202; 409 if a service is not connected; 429 if there were too many calls.
 */
export const retryAllCall = {
  method: 'POST',
  path: '/api/notifications/activity/retry-all',
  feature: 'retry-all',
} as const

export const retryAllAnswer = v.object({
  /** How many messages will be sent again. */
  queued: count,
  /** Whether older ones may be left, which stay failed. */
  more: v.boolean(),
})
export type RetryAllAnswer = v.InferOutput<typeof retryAllAnswer>

export const retryAll = {
  name: 'retry-all',
  shows: 'a button that sends all failed messages again, or those of a filter',
  calls: [{ call: retryAllCall, answer: retryAllAnswer, example: { queued: 3, more: false } }],
} as const satisfies Feature
