import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/pglite'
import { migrate } from 'drizzle-orm/pglite/migrator'
import { expect, onTestFinished, test } from 'vitest'
import { openPglite } from '../../server/database/open.ts'
import { connections, crmAccounts, dealEvents } from '../../server/database/schema.ts'
import { newDataFolder } from '../database.ts'

const migrations = join(import.meta.dirname, '../../server/database/migrations')

test('after the upgrade from a version without searches and checks, both go on from now', async () => {
  const { database, began } = await upgraded(
    5,
    `
      insert into users (id) select gen_random_uuid() from generate_series(1, 100);
      insert into connections (user_id, provider, secrets, account_id, grant_id, connected_at)
        select id, provider, 's', case provider when 'hubspot' then '7' else 'T' end, 'g', '2026-01-01'
        from users cross join unnest(array['hubspot', 'slack']) as provider;
      insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at)
        values ('k1', 'hubspot', '7', '1', 'stage', 'won', now());`,
  )
  const [account, ...others] = await database.select().from(crmAccounts)
  expect(others).toEqual([])
  expect(account).toMatchObject({ crm: 'hubspot', accountId: '7' })
  // An hour earlier, because the time was of the server's clock.
  expect(account?.searchedUntil.getTime()).toBeGreaterThanOrEqual(began - 3_600_000)
  expect(await database.select().from(dealEvents)).toMatchObject([{ foundBy: 'webhook' }])
  // The checks do not all come at once.
  const hours = (await database.select().from(connections)).map(({ checkedAt }) =>
    Math.floor((Date.now() - checkedAt.getTime()) / 3_600_000),
  )
  expect(new Set(hours).size).toBeGreaterThan(12)
  expect(Math.max(...hours)).toBeLessThan(24)
})

/** Fills a database of the version with these first migrations, and opens it with the current version. */
async function upgraded(count: number, statements: string) {
  const folder = await newDataFolder()
  const old = await PGlite.create({ dataDir: join(folder, 'pglite') })
  await old.exec('drop schema public, drizzle cascade; create schema public')
  const copy = join(folder, 'migrations')
  await cp(migrations, copy, { recursive: true })
  const path = join(copy, 'meta/_journal.json')
  const journal = JSON.parse(await readFile(path, 'utf8'))
  const entries = journal.entries.slice(0, count)
  await writeFile(path, JSON.stringify({ ...journal, entries }))
  await migrate(drizzle(old), { migrationsFolder: copy })
  await old.exec(statements)
  await old.close()
  const began = Date.now()
  const { database, close } = await openPglite(join(folder, 'pglite'), { synced: false })
  onTestFinished(close)
  return { database, began }
}
