import { createHmac } from 'node:crypto'
import { and, eq, ne, sql } from 'drizzle-orm'
import * as v from 'valibot'
import { type Database, rowsOf } from '../database/open.ts'
import { deliveries } from '../database/schema.ts'
import { makeDue } from './channels.ts'
import { refusedWebhookCounts } from './refused-webhooks.ts'

/** The number of deliveries in each state, and the number of dead deliveries for each reason. */
const deliveryCounts = v.object({
  pending: v.number(),
  sent: v.number(),
  ignored: v.number(),
  dead: v.number(),
  reasons: v.record(v.string(), v.number()),
})
type DeliveryCounts = v.InferOutput<typeof deliveryCounts>

/** What a server knows about its relay. Without a running server, nobody counts webhooks. */
export const relayStatus = v.object({
  ...deliveryCounts.entries,
  refusedWebhooks: v.optional(refusedWebhookCounts),
})
export type RelayStatus = v.InferOutput<typeof relayStatus>

export const replayAnswer = v.object({ replayed: v.number() })

export async function countDeliveries(database: Database): Promise<DeliveryCounts> {
  const rows = await rowsOf<{ state: string; reason: string | null; count: number }>(
    database,
    sql`select state, case when state = 'dead' then reason end as reason, count(*)::int as count
        from deliveries group by 1, 2 order by 3 desc`,
  )
  const count = (state: string) =>
    rows.filter((row) => row.state === state).reduce((sum, row) => sum + row.count, 0)
  return {
    pending: count('pending'),
    sent: count('sent'),
    ignored: count('ignored'),
    dead: count('dead'),
    reasons: Object.fromEntries(
      rows.filter(({ state }) => state === 'dead').map((row) => [row.reason ?? '', row.count]),
    ),
  }
}

// Leave out deliveries that a disconnect ended: we promised the user to send nothing more.
const replayable = and(eq(deliveries.state, 'dead'), ne(deliveries.reason, 'disconnected'))

/** Makes the dead deliveries pending again, in their old order. @returns their number. */
export async function replayDead(database: Database): Promise<number> {
  return await database.transaction(async (tx) => {
    const revived = await tx
      .update(deliveries)
      .set({ state: 'pending', attempts: 0, reason: null, notBefore: null, finishedAt: null })
      .where(replayable)
      .returning({ channel: deliveries.channel })
    await makeDue(tx, [...new Set(revived.map(({ channel }) => channel))])
    return revived.length
  })
}

/**
 * Derives the operator's token from the newest encryption key, which server and operator both read.
 */
export function operatorToken([newest]: readonly Buffer[]): string {
  if (newest === undefined) throw new Error('There is no encryption key.')
  return createHmac('sha256', newest).update('dealbell operator').digest('base64url')
}
