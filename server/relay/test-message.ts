import { randomUUID } from 'node:crypto'
import { eq, sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { channels, dealEvents, deliveries, testProperty } from '../database/schema.ts'
import type { CrmId } from '../providers/registry.ts'
import { makeDue } from './channels.ts'

/**
 * Stores a test message as an event with a delivery, so that it takes the path of every other message.
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

/** What became of a test message. Undefined: its user no longer exists. */
export async function testMessageOutcome(database: Database, id: number) {
  const [row] = await database
    .select({
      state: deliveries.state,
      reason: deliveries.reason,
      /** The channel that it was sent to. The user may have chosen another one meanwhile. */
      channel: channels.name,
      nextTryAt: sql<string | null>`case
        when greatest(${deliveries.notBefore}, ${channels.nextAt}) > now()
        then greatest(${deliveries.notBefore}, ${channels.nextAt})
      end`.mapWith(deliveries.notBefore),
    })
    .from(deliveries)
    .innerJoin(channels, eq(channels.id, deliveries.channel))
    .where(eq(deliveries.id, id))
  return row
}
