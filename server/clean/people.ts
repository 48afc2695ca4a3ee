import { lt, sql } from 'drizzle-orm'
import { deleteInBatches } from '../database/batches.ts'
import type { Database } from '../database/open.ts'
import { sessions, usedTokens, users } from '../database/schema.ts'

/** How many rows were deleted. */
export interface Deleted {
  usedTokens: number
  sessions: number
  users: number
}

/** Deletes what nobody can use any more, in batches. */
export async function deleteUnused(
  database: Database,
  now: Date,
  signal?: AbortSignal,
): Promise<Deleted> {
  // Nobody can sign in as such a user. Connections and rules go along.
  const isLost = sql`${users.crmUserId} is null
    and not exists (select from ${sessions} where ${sessions.userId} = ${users.id})`
  return {
    usedTokens: await deleteInBatches(database, usedTokens, lt(usedTokens.expiresAt, now), signal),
    sessions: await deleteInBatches(database, sessions, lt(sessions.expiresAt, now), signal),
    users: await deleteInBatches(database, users, isLost, signal),
  }
}
