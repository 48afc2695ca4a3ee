import * as v from 'valibot'
import type { Feature } from '../endpoints.ts'
import { shownText, time } from '../fields.ts'

/**
 * Sends a test message. 200; 202 if it still waits; 409 if a service is not connected; 502 with a
 * sentence if it cannot be sent; 429 if the last one was less than ten seconds ago.
 */
export const testCall = {
  method: 'POST',
  path: '/api/notifications/test',
  feature: 'test-message',
} as const

/** If it waits, `reason` and `nextTryAt` are those of its item in the activity. */
export const testAnswer = v.object({
  state: v.picklist(['sent', 'waiting']),
  channel: shownText,
  reason: v.optional(shownText, null),
  nextTryAt: v.optional(v.nullable(time), null),
})
export type TestAnswer = v.InferOutput<typeof testAnswer>

export const testMessage = {
  name: 'test-message',
  shows: 'a button that sends a test message',
  calls: [
    {
      call: testCall,
      answer: testAnswer,
      example: { state: 'sent', channel: '#sales-floor', reason: null, nextTryAt: null },
    },
  ],
} as const satisfies Feature
