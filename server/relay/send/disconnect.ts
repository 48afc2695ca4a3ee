import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, inArray, sql } from 'drizzle-orm'
import { batchRows } from '../../database/batches.ts'
import type { Database, Executor } from '../../database/open.ts'
import { deliveries } from '../../database/schema.ts'
import { isClaimed } from '../pick/delivery.ts'
import { makeDueFrom } from '../schedule/channels.ts'

/**
 * Marks what waits for a user who disconnects. The relay ends it in batches, also if the user connects again meanwhile.
 * Call it in the transaction that deletes the connection, so that nothing of it is sent from then on.
 */
export async function endWaiting(tx: Executor, userId: string): Promise<void> {
  await tx.execute(
    sql`update users set ended_through = (select max(id) from deliveries) where id = ${userId}`,
  )
}

export async function lookAtWaiting(database: Executor, userId: string): Promise<void> {
  await database.execute(
    makeDueFrom(sql`
      select channel from (
        select channel from deliveries where user_id = ${userId} and state = 'pending'
        order by occurred_at, id limit ${batchRows}
      ) as waiting`),
  )
}

/** Waits for the messages that are being sent to this user. Those that begin later do not count. */
export async function sendingEnded(database: Database, userId: string): Promise<void> {
  const isSending = and(eq(deliveries.userId, userId), isClaimed)
  const begun = await database.select({ id: deliveries.id }).from(deliveries).where(isSending)
  const isOfBegun = inArray(
    deliveries.id,
    begun.map(({ id }) => id),
  )
  while (begun.length > 0 && (await database.$count(deliveries, and(isSending, isOfBegun))) > 0) {
    await delay(50)
  }
}
