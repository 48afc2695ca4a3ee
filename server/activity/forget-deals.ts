import { type SQL, sql } from 'drizzle-orm'
import { batchRows, inBatches } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import type { CrmId } from '../providers/registry.ts'

/**
 * Deletes what the list of messages shows of a user's deals in a CRM: names and labels. The rest of the
 * list stays. It works in batches along the index `deliveries_activity`. @returns in how many messages.
 */
export async function forgetDeals(
  database: Database,
  userId: string,
  crm: CrmId,
  signal?: AbortSignal,
): Promise<number> {
  // The user may connect again meanwhile. The names of later messages stay.
  const [newest] = await rowsOf<{ id: string | null }>(
    database,
    sql`select max(id)::text as id from deliveries where user_id = ${userId}`,
  )
  if (!newest?.id) return 0
  const { id: last } = newest
  let forgotten = 0
  let after: SQL = sql``
  await inBatches(async () => {
    const [page] = await rowsOf<{
      rows: number
      forgotten: number
      state: string | null
      at: string | null
      id: string | null
    }>(
      database,
      sql`with page as (
            select id, state, occurred_at from deliveries where user_id = ${userId} ${after}
            order by state, occurred_at, id limit ${batchRows}
          ), gone as (
            update deliveries set deal_name = null, from_label = null, to_label = null
            where id = any(array(select id from page))
              and id <= ${last}::bigint
              and (deal_name is not null or from_label is not null or to_label is not null)
              and (select crm from deal_events where deal_events.id = event_id) = ${crm}
            returning 1
          ), last as (
            select state, occurred_at::text as at, id::text as id from page
            order by page.state desc, page.occurred_at desc, page.id desc limit 1
          )
          select (select count(*)::int from page) as rows, (select count(*)::int from gone) as forgotten,
                 (select state from last) as state, (select at from last) as at,
                 (select id from last) as id`,
    )
    if (page === undefined) return 0
    after = sql`and (state, occurred_at, id) >
                    (${page.state}, ${page.at}::timestamptz, ${page.id}::bigint)`
    forgotten += page.forgotten
    return page.rows === batchRows ? page.rows : 0
  }, signal)
  return forgotten
}
