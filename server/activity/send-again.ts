import { sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../database/open.ts'
import { makeDue } from '../relay/schedule/channels.ts'
import { isItemId } from './list.ts'

/** Makes a user's failed delivery pending again. It keeps its place in the list. */
export async function sendAgain(
  database: Database,
  userId: string,
  id: string,
): Promise<'pending' | 'not failed' | 'unknown'> {
  if (!isItemId(id)) return 'unknown'
  const own = await rowsOf(
    database,
    sql`select from deliveries where id = ${id}::bigint and user_id = ${userId}`,
  )
  if (own.length === 0) return 'unknown'
  return (await revive(database, [id])) > 0 ? 'pending' : 'not failed'
}

/**
 * Makes those of these deliveries pending again that are dead. While the relay still ends what waited at a disconnect
 * (`endWaiting`), what is as old stays dead. @returns their number.
 */
export async function revive(database: Database, ids: readonly string[]): Promise<number> {
  return await database.transaction(async (tx) => {
    const some = sql`any(${sql.param([...ids])}::bigint[])`
    await tx.execute(
      sql`update users set ended_through = null
          where ended_through is not null
            and id in (select user_id from deliveries where deliveries.id = ${some})
            and not exists (
              select from deliveries
              where user_id = users.id and state = 'pending' and deliveries.id <= ended_through
            )`,
    )
    const revived = await rowsOf<{ channel: string }>(
      tx,
      sql`update deliveries
          set state = 'pending', attempts = 0, reason = null, not_before = null, form = null,
              alone = false, sending_until = null, finished_at = null
          where id = any(array(
            select id from deliveries
            where id = ${some} and state = 'dead'
              and not exists (select from users where users.id = user_id and ended_through >= deliveries.id)
            order by id for update
          ))
          returning channel`,
    )
    await makeDue(tx, [...new Set(revived.map(({ channel }) => channel))])
    return revived.length
  })
}
