import { lt, sql } from 'drizzle-orm'
import { batchRows, deleteInBatches, inBatches } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import { sessions, usedTokens } from '../database/schema.ts'

/** Noting each day that somebody is still here would write a row for every user. */
const noteEveryDays = 30
/** A user who has had neither a session nor a connection for a year is deleted. The last note may be a month older. */
const keepDays = 365 + noteEveryDays

/** @returns how many rows were deleted. */
export async function deleteUnused(database: Database, now: Date, signal?: AbortSignal) {
  return {
    usedTokens: await deleteInBatches(database, usedTokens, lt(usedTokens.expiresAt, now), signal),
    sessions: await deleteInBatches(database, sessions, lt(sessions.expiresAt, now), signal),
    users: await deleteLost(database, now, signal),
  }
}

/**
 * Walks through all users. Deletes those whom nobody can sign in as, and those who have not been here for a year. Rules
 * and the rest go along. Notes of the others that they are here.
 */
async function deleteLost(database: Database, now: Date, signal?: AbortSignal): Promise<number> {
  const daysAgo = (days: number) =>
    sql`${now.toISOString()}::timestamptz - make_interval(days => ${days})`
  let deleted = 0
  let after = '00000000-0000-0000-0000-000000000000'
  await inBatches(async () => {
    const [page] = await rowsOf<{ rows: number; gone: number; last: string | null }>(
      database,
      sql`with page as (
            select id, seen_at, crm_user_id is null as unnamed,
                   exists (select from sessions where user_id = users.id) as signed_in,
                   exists (select from connections where user_id = users.id) as connected
            from users where id > ${after} order by id limit ${batchRows}
          ), gone as (
            -- Somebody may be signing in. Their row is locked then, and stays.
            delete from users where id = any(array(
              select id from users join page using (id)
              where not signed_in
                and (unnamed or not connected and page.seen_at < ${daysAgo(keepDays)})
              for update of users skip locked
            )) returning 1
          ), seen as (
            update users set seen_at = ${now.toISOString()}::timestamptz
            where id = any(array(
              select id from users join page using (id)
              where (signed_in or not unnamed and connected)
                and page.seen_at < ${daysAgo(noteEveryDays)}
              for no key update of users skip locked
            ))
          )
          select (select count(*)::int from page) as rows, (select count(*)::int from gone) as gone,
                 (select id from page order by id desc limit 1) as last`,
    )
    if (!page?.last) return 0
    after = page.last
    deleted += page.gone
    return page.rows
  }, signal)
  return deleted
}
