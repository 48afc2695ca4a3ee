// What a command needs to ask a running server. It imports nothing that takes long, because loading Drizzle takes longer
// than the server's answer.

import { createHmac } from 'node:crypto'
import * as v from 'valibot'

/** The number of deliveries in each state, and the number of dead deliveries for each reason. */
export const deliveryCounts = v.object({
  pending: v.number(),
  sent: v.number(),
  ignored: v.number(),
  dead: v.number(),
  reasons: v.record(v.string(), v.number()),
})
export type DeliveryCounts = v.InferOutput<typeof deliveryCounts>

/** The figures of `readStored`. */
export const statusAnswer = v.looseObject({ pending: v.number() })

/** What `readAccount` tells. */
export const accountAnswer = v.looseObject({ accounts: v.array(v.string()) })

export const replayAnswer = v.object({ replayed: v.number() })

/** The answer to a change of an account. To delete a large one, the command repeats its call until it is done. */
export const changeAnswer = v.object({ done: v.boolean(), replayed: v.number() })

/**
 * Derives the operator's token from the newest encryption key, which server and operator both read.
 */
export function operatorToken([newest]: readonly Buffer[]): string {
  if (newest === undefined) throw new Error('There is no encryption key.')
  return createHmac('sha256', newest).update('dealbell operator').digest('base64url')
}
