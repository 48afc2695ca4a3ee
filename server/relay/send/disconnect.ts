import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, inArray, sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../../database/open.ts'
import { deliveries } from '../../database/schema.ts'
import { deliveriesEnded } from '../../watch/metrics.ts'
import { isClaimed } from '../pick/delivery.ts'
import { isUnclaimed } from './claim.ts'

// What a disconnect and a new connection wait for.

/** Ends the pending deliveries of a user who disconnects. Resolves when none is being sent. */
export async function stopSendingTo(database: Database, userId: string): Promise<void> {
  const isUnclaimedOne = sql`user_id = ${userId} and state = 'pending' and ${isUnclaimed}`
  for (;;) {
    const [row] = await rowsOf<{ ended: number }>(
      database,
      sql`with changed as (
            update deliveries set state = 'dead', reason = 'disconnected', finished_at = now()
            where id = any(array(
              select id from deliveries where ${isUnclaimedOne} order by id for update
            ))
            returning 1
          )
          select count(*)::int as ended from changed`,
    )
    deliveriesEnded.inc({ state: 'dead', reason: 'disconnected' }, row?.ended ?? 0)
    // In this order: nobody can begin to send what is no longer pending.
    const isPending = and(eq(deliveries.userId, userId), eq(deliveries.state, 'pending'))
    const pending = await database.$count(deliveries, isPending)
    if (pending === 0 && (await database.$count(deliveries, isClaimedOf(userId))) === 0) return
    await delay(50)
  }
}

const isClaimedOf = (userId: string) => and(eq(deliveries.userId, userId), isClaimed)

/** Waits for the messages that are being sent to this user. Those that begin later do not count. */
export async function sendingEnded(database: Database, userId: string): Promise<void> {
  const isSending = isClaimedOf(userId)
  const begun = await database.select({ id: deliveries.id }).from(deliveries).where(isSending)
  const isOfBegun = inArray(
    deliveries.id,
    begun.map(({ id }) => id),
  )
  while (begun.length > 0 && (await database.$count(deliveries, and(isSending, isOfBegun))) > 0) {
    await delay(50)
  }
}
