import { type SQL, sql } from 'drizzle-orm'
import { inBatchesOf } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import { testProperty } from '../database/schema.ts'
import type { DeliveryCounts } from './operator-answers.ts'
import { revive } from './send-again.ts'

/** Counts all deliveries of all time, or those of some users. With millions, this takes seconds. */
export async function countDeliveries(
  database: Database,
  isOfUsers: SQL = sql`true`,
): Promise<DeliveryCounts> {
  const rows = await rowsOf<{ state: string; reason: string | null; count: number }>(
    database,
    sql`select state, case when state = 'dead' then reason end as reason, count(*)::int as count
        from deliveries where ${isOfUsers} group by 1, 2 order by 3 desc`,
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

/** Older changes are no news. A search for missed changes looks no further back, either. */
const replayDays = 3

/**
 * Makes dead deliveries pending again, in their old order and in batches. Leaves out old changes, test
 * messages, and what a disconnect ended: we promised the user to send nothing more. @returns their number.
 */
export async function replayDead(database: Database, isOfUsers: SQL = sql`true`): Promise<number> {
  // Find them all first. What a batch revives may soon be dead again, and must not be revived for ever.
  const found = await rowsOf<{ id: string }>(
    database,
    sql`select id::text as id from deliveries
        where state = 'dead' and reason <> 'disconnected' and ${isOfUsers}
          and occurred_at > now() - make_interval(days => ${replayDays})
          and (select property from deal_events where deal_events.id = event_id) <> ${testProperty}
        order by occurred_at, id`,
  )
  return await inBatchesOf(
    found.map(({ id }) => id),
    (ids) => revive(database, ids),
  )
}
