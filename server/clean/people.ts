import { lt, type SQL, sql } from 'drizzle-orm'
import { batchRows, deleteInBatches, inBatches, refersToOne } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import {
  authorizations,
  connections,
  deliveries,
  rules,
  sessions,
  users,
} from '../database/schema.ts'

const dayMs = 24 * 60 * 60 * 1000

/** How many rows were deleted. */
export interface Deleted {
  authorizations: number
  sessions: number
  users: number
}

/**
 * Deletes what nobody can use any more, in batches. Any caller without a cookie can make a session, and
 * most of them never come back.
 */
export async function deleteUnused(
  database: Database,
  now: Date,
  signal?: AbortSignal,
): Promise<Deleted> {
  return {
    authorizations: await deleteInBatches(
      database,
      authorizations,
      lt(authorizations.expiresAt, now),
      signal,
    ),
    sessions: await deleteSessions(database, now, signal),
    users: await deleteUsers(database, signal),
  }
}

/** Deletes expired sessions, and sessions older than a day that hold nothing. */
async function deleteSessions(
  database: Database,
  now: Date,
  signal: AbortSignal | undefined,
): Promise<number> {
  const isUnused = sql`${sessions.expiresAt} < ${iso(now)} or (
    ${sessions.createdAt} < ${iso(new Date(now.getTime() - dayMs))}
    and not exists (select from ${connections} where ${connections.userId} = ${sessions.userId})
    and not exists (select from ${rules} where ${rules.userId} = ${sessions.userId})
    and not exists (
      select from ${authorizations}
      where ${authorizations.sessionHash} = ${sessions.tokenHash}
        and ${authorizations.expiresAt} > ${iso(now)}
    )
  )`
  let deleted = 0
  // Most sessions stay. Going through the key visits each of them once.
  let after = ''
  await inBatches(async () => {
    const [page] = await rowsOf<{ last: string | null; deleted: number }>(
      database,
      sql`with page as materialized (
            select token_hash from sessions where token_hash > ${after}
            order by token_hash limit ${batchRows}
          ), unused as (
            select ${sessions.tokenHash} from ${sessions}
            where ${sessions.tokenHash} = any(array(select token_hash from page)) and (${isUnused})
            for update skip locked
          ), gone as (
            delete from sessions where token_hash = any(array(select token_hash from unused)) returning 1
          )
          select (select max(token_hash) from page) as last,
                 (select count(*)::int from gone) as deleted`,
    )
    if (page === undefined || page.last === null) return 0
    after = page.last
    deleted += page.deleted
    return batchRows
  }, signal)
  return deleted
}

/**
 * Deletes users as whom nobody can sign in: they have no session, and no identity by which a browser
 * could find them again. Their connections, rules and deliveries go along.
 */
async function deleteUsers(database: Database, signal: AbortSignal | undefined): Promise<number> {
  const isUnused = sql`${users.crmUserId} is null
    and not exists (select from ${sessions} where ${sessions.userId} = ${users.id})`
  let deleted = 0
  let after = '00000000-0000-0000-0000-000000000000'
  await inBatches(async () => {
    const page = await rowsOf<{ id: string; unused: boolean }>(
      database,
      sql`select ${users.id}, ${isUnused} as unused from ${users}
          where ${users.id} > ${after} order by ${users.id} limit ${batchRows}`,
    )
    const unused = page.filter((user) => user.unused).map(({ id }) => id)
    if (unused.length > 0) {
      const ids = sql`${sql.param(unused)}::uuid[]`
      // A user can have any number of deliveries, too many for the statement that deletes the user.
      await deleteInBatches(database, deliveries, refersToOne(deliveries.userId, ids), signal)
      const gone = await rowsOf(
        database,
        sql`delete from ${users}
            where ${users.id} = any(array(select unnest(${ids}))) and ${isUnused} returning 1`,
      )
      deleted += gone.length
    }
    after = page.at(-1)?.id ?? after
    return page.length
  }, signal)
  return deleted
}

/** A time as a parameter of SQL whose type no column tells. */
function iso(time: Date): SQL {
  return sql`${time.toISOString()}::timestamptz`
}
