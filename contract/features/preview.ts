import * as v from 'valibot'
import type { Feature } from '../endpoints.ts'
import { count } from '../fields.ts'

/**
 * What each rule alone would have sent in the last days. 409 if the CRM is not connected; 502 with a sentence if it does
 * not say what changed.
 */
export const previewCall = {
  method: 'GET',
  path: '/api/notifications/preview',
  feature: 'preview',
} as const

export const previewAnswer = v.object({
  days: count,
  /**
   * How many messages each rule alone would have sent, by rule id. Empty while the backend still counts: the dashboard
   * asks again.
   */
  rules: v.record(v.string(), count),
  /** The newest message of each rule, as plain text. A rule without a message is missing. */
  samples: v.record(v.string(), v.string()),
  /** False while the backend still counts, or if it did not read all changes, so that there may be more messages. */
  complete: v.boolean(),
})
export type Preview = v.InferOutput<typeof previewAnswer>

export const preview = {
  name: 'preview',
  shows: 'beside each rule that is not saved what it would have sent',
  calls: [
    {
      call: previewCall,
      answer: previewAnswer,
      example: {
        days: 7,
        rules: { 'deal-stage-changed': 31, 'deal-closed': 4, 'deal-stage-changed-orphan': 2 },
        samples: { 'deal-closed': '🎉 Acme renewal was won (€12,000)' },
        complete: true,
      },
    },
  ],
} as const satisfies Feature
