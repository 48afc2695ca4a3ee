import { sql } from 'drizzle-orm'
import { forgetDeals } from '../activity/forget-deals.ts'
import { batchRows, inBatches } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import { crmIds } from '../providers/registry.ts'

/**
 * Deletes the names and labels of users who have disconnected a CRM, if the process died before the
 * disconnect had deleted them all. @returns in how many messages.
 */
export async function forgetDealsOfDisconnected(
  database: Database,
  signal?: AbortSignal,
): Promise<number> {
  let forgotten = 0
  for (const crm of crmIds) {
    let after = '00000000-0000-0000-0000-000000000000'
    await inBatches(async () => {
      const page = await rowsOf<{ id: string; disconnected: boolean }>(
        database,
        sql`select id, exists (select from deliveries where user_id = users.id) and not exists (
                     select from connections where user_id = users.id and provider = ${crm}
                   ) as disconnected
            -- The limit first: for many users, PostgreSQL would read all deliveries.
            from (select id from users where id > ${after} order by id limit ${batchRows}) as users`,
      )
      for (const { id, disconnected } of page) {
        if (disconnected) forgotten += await forgetDeals(database, id, crm, signal)
      }
      after = page.at(-1)?.id ?? after
      return page.length
    }, signal)
  }
  return forgotten
}
