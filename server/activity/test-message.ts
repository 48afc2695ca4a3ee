import { randomUUID } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../database/open.ts'
import { dealEvents, deliveries, testProperty } from '../database/schema.ts'
import type { CrmId } from '../providers/registry.ts'
import { makeDue } from '../relay/schedule/channels.ts'
import { isPaused, nextTryAt } from './list.ts'

/**
 * Stores a test message as an event with a delivery, so that it takes the path of every other message. Its event has
 * no deal. A delivery without an event would need a second form of each query that joins the two, and a clean-up of its
 * own.
 * @returns the id of the delivery.
 */
export async function storeTestMessage(
  database: Database,
  {
    userId,
    crm,
    accountId,
    channel,
  }: { userId: string; crm: CrmId; accountId: string; channel: string },
): Promise<number> {
  return await database.transaction(async (tx) => {
    // Both get the start of the transaction.
    const occurredAt = sql`now()`
    const [event] = await tx
      .insert(dealEvents)
      .values({
        key: `test/${randomUUID()}`,
        crm,
        accountId,
        dealId: '',
        property: testProperty,
        value: '',
        occurredAt,
      })
      .returning({ id: dealEvents.id })
    if (event === undefined) throw new Error('The insert of an event returned no row.')
    const [delivery] = await tx
      .insert(deliveries)
      .values({ eventId: event.id, userId, channel, occurredAt })
      .returning({ id: deliveries.id })
    if (delivery === undefined) throw new Error('The insert of a delivery returned no row.')
    await makeDue(tx, [channel])
    return delivery.id
  })
}

interface Outcome {
  state: 'pending' | 'sent' | 'dead' | 'ignored'
  reason: string | null
  /** The name of the channel. The user may have chosen another one meanwhile. */
  channel: string | null
  /** In ISO 8601. */
  nextTryAt: string | null
}

/** Returns what became of a test message. Undefined: its user no longer exists. */
export async function testMessageOutcome(
  database: Database,
  id: number,
): Promise<Outcome | undefined> {
  const [row] = await rowsOf<Outcome>(
    database,
    // A pause also holds up a message that was never tried.
    sql`select delivery.state, channel.name as channel,
               case
                 when delivery.state = 'pending' and ${isPaused} then 'rate_limited'
                 else delivery.reason
               end as reason,
               ${nextTryAt} as "nextTryAt"
        from deliveries as delivery
        join channels as channel on channel.id = delivery.channel
        where delivery.id = ${id}`,
  )
  return row
}
