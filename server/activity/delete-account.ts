import { eq, sql } from 'drizzle-orm'
import { deleteInBatches } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import { connections, dealEvents, deliveries, sessions, users } from '../database/schema.ts'
import type { RemovedConnection } from '../people/end-grant.ts'
import { isOf, pauseAccount, usersOf } from './account.ts'

interface Dependencies {
  database: Database
  endGrant: (removed: RemovedConnection) => Promise<void>
  sendingEnded: (database: Database, userId: string) => Promise<void>
}

/**
 * Deletes everything that belongs to an account, in batches. What an error or the signal cuts off, the next call deletes.
 * @throws if the signal is aborted.
 */
export async function deleteAccount(
  { database, endGrant, sendingEnded }: Dependencies,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  // Until the last user is gone, none gets a message.
  await pauseAccount(database, id)
  for (const user of await rowsOf<{ id: string }>(database, usersOf(id))) {
    signal.throwIfAborted()
    await database.delete(sessions).where(eq(sessions.userId, user.id))
    const isOfUser = eq(connections.userId, user.id)
    const removed = await database.delete(connections).where(isOfUser).returning()
    await sendingEnded(database, user.id)
    for (const each of removed) await endGrant(each)
    await deleteInBatches(database, deliveries, eq(deliveries.userId, user.id), signal)
    await database.delete(users).where(eq(users.id, user.id))
  }
  await deleteInBatches(database, dealEvents, isOf(id), signal)
  await database.execute(sql`delete from crm_budgets where ${isOf(id)}`)
  await database.execute(sql`delete from crm_accounts where ${isOf(id)}`)
}
