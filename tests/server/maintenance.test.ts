import { sql } from 'drizzle-orm'
import { expect, onTestFinished, test, vi } from 'vitest'
import { maintainPglite } from '../../server/database/maintenance.ts'
import { type Database, rowsOf } from '../../server/database/open.ts'
import { users } from '../../server/database/schema.ts'
import { logTo } from '../../server/log.ts'
import { openTestDatabase } from '../database.ts'
import { storeDelivery } from './harness.ts'

/** How a statement of the relay finds deliveries by their ids. */
async function planOf(database: Database, ids: number): Promise<string> {
  const rows = await rowsOf<{ 'QUERY PLAN': string }>(
    database,
    sql`explain update deliveries set attempts = 1 where state = 'pending' and id = any(
          ${sql.param(Array.from({ length: ids }, (_, id) => id))}::bigint[])`,
  )
  return rows.map((row) => row['QUERY PLAN']).join('\n')
}

test('PGlite knows how many deliveries are pending, after a start and when they become ten times as many', async () => {
  const { database, close } = await openTestDatabase('PGlite')
  const log = vi.fn()
  const upkeep = maintainPglite(
    { database, hasRoom: () => true, log: logTo((_level, ...line) => log(...line)) },
    10,
  )
  onTestFinished(async () => {
    await upkeep.stop()
    await close()
  })
  const [user] = await database.insert(users).values({}).returning()
  const userId = user?.id ?? ''
  await storeDelivery(database, userId, { state: 'sent' })
  const analyzed = () =>
    rowsOf<{ rows: number }>(
      database,
      sql`select reltuples::int as rows from pg_class where relname = 'deliveries'`,
    )
  const copy = (count: number) =>
    database.execute(sql`
      with event as (
        insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at)
        select gen_random_uuid(), crm, account_id, deal_id, property, value, occurred_at
        from (select * from deal_events limit 1) as one, generate_series(1, ${count}::int)
        returning id
      )
      insert into deliveries (event_id, user_id, channel, occurred_at)
      select id, ${userId}, 'T1/C1', now() from event`)
  for (const [more, all] of [
    [599, 600],
    [5_400, 6_000],
  ] as const) {
    await copy(more)
    await vi.waitFor(async () => expect(await analyzed()).toEqual([{ rows: all }]), 10_000)
    expect(await planOf(database, 30)).toMatch(/deliveries_(pkey|oldest)/)
    expect(await planOf(database, 30)).not.toContain('deliveries_pending')
  }
  expect(log).not.toHaveBeenCalled()
})
