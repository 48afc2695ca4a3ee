import { PGlite } from '@electric-sql/pglite'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import { migrate as migratePglite } from 'drizzle-orm/pglite/migrator'
import pg from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { keepIndexes } from '../../server/database/indexes.ts'
import { migrateAlone } from '../../server/database/migrate.ts'
import { openPostgres } from '../../server/database/open.ts'
import { logTo } from '../../server/log.ts'
import { databaseKinds, newPostgresDatabase } from '../database.ts'
import { migrationsUpTo } from '../former-release.ts'

/** A database of the release whose last migration has this number. */
async function formerPglite(last: string) {
  const client = await PGlite.create()
  onTestFinished(() => client.close())
  await migratePglite(drizzlePglite(client), await migrationsUpTo(last))
  return {
    run: (text: string): Promise<unknown> => client.exec(text),
    start: () => migrateAlone(client),
  }
}

async function formerPostgres(last: string) {
  const url = await newPostgresDatabase()
  const client = await connect(url)
  await migrate(drizzle(client), await migrationsUpTo(last))
  return {
    url,
    run: (text: string): Promise<unknown> => client.query(text),
    async start(onBlocked = () => {}) {
      const { close } = await openPostgres(url, () => undefined, { onBlocked })
      await close()
    },
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

describe.each(databaseKinds)('on %s', (kind) => {
  const former = (last: string) => (kind === 'PGlite' ? formerPglite(last) : formerPostgres(last))

  test('a database of a former release gets what it lacks, whatever another program has written into the journal', async () => {
    const { run, start } = await former('0016')
    await run(`insert into drizzle.__drizzle_migrations (hash, created_at)
      values ('older', 1), ('newer', 9000000000000)`)
    await start()
    await run('select form from deliveries')
    await start()
  })

  test('the start says which columns are missing', async () => {
    const { run, start } = await former('0017')
    await start()
    await run('alter table deliveries drop column form, drop column rule_id')
    await run('drop table used_tokens')
    const missing = 'The database lacks deliveries.form, deliveries.rule_id, used_tokens, although'
    await expect(start()).rejects.toThrow(missing)
  })
})

test('the start says that the tables of the database belong to another program', async () => {
  const client = await PGlite.create()
  onTestFinished(() => client.close())
  await client.exec('create table users (name text)')
  const message = 'The database has tables that Dealbell did not make: relation "users"'
  await expect(migrateAlone(client)).rejects.toThrow(message)
})

describe.runIf(databaseKinds.includes('PostgreSQL'))('on a PostgreSQL that is in use', () => {
  const longestWaitMs = 1_500

  test('a migration that does not get its locks lets inserts pass, and is applied later', async () => {
    const { url, run, start } = await formerPostgres('0017')
    // As pg_dump does.
    await run('begin; lock table channels in access share mode')
    const inserting = await connect(url)
    let tries = 0
    const starting = start(() => tries++)
    let longestMs = 0
    for (let id = 0; tries < 2; id++) {
      const beganMs = performance.now()
      await inserting.query(`insert into channels (id) values (${id})`)
      longestMs = Math.max(longestMs, performance.now() - beganMs)
    }
    expect(longestMs).toBeLessThan(longestWaitMs)
    await run('commit')
    await starting
    await run('select failing from channels')
  })

  test('indexes are built after the start by one process, and those that they replace are dropped after them', async () => {
    const { url, start } = await formerPostgres('0014')
    await start()
    const client = await connect(url)
    expect(await indexesIn(client)).toContain('deal_events_searched')
    expect(await indexesIn(client)).not.toContain('deal_events_same')
    const lines = [keep(url), keep(url)].map((each) => each.lines)
    await vi.waitFor(
      async () => expect(await indexesIn(client)).not.toContain('deal_events_searched'),
      { timeout: 20_000 },
    )
    // As in a new database.
    const fresh = await newPostgresDatabase()
    await (await openPostgres(fresh, () => undefined)).close()
    expect(await indexesIn(client)).toBe(await indexesIn(await connect(fresh)))
    const events = lines.flat().map(({ event }) => event)
    expect(events.filter((event) => event === 'index build ended')).toHaveLength(7)
    expect(events).not.toContain('index build failed')
  })

  test('a build whose process has ended goes on, and one that died is made again', async () => {
    const { url, run, start } = await formerPostgres('0017')
    await start()
    const observer = await connect(url)
    const found = async () => {
      const { rows } = await observer.query(
        `select indexrelid as id, indisvalid as "isValid" from pg_index
         where indexrelid = to_regclass('deliveries_next')`,
      )
      return rows[0]
    }
    // A build waits for the transactions that use its table.
    await run('begin; lock table deliveries in row exclusive mode')
    const ended = keep(url)
    await vi.waitFor(async () => expect(await found()).toBeDefined(), { timeout: 20_000 })
    const unfinished = { ...(await found()), isValid: false }
    await ended.stop()
    await keep(url).said('index build goes on in PostgreSQL', { table: 'deliveries' })
    expect(await found()).toEqual(unfinished)

    const builds = 'from pg_stat_progress_create_index where datname = current_database()'
    await observer.query(`select pg_terminate_backend(pid) ${builds}`)
    await vi.waitFor(async () =>
      expect((await observer.query(`select ${builds}`)).rowCount).toBe(0),
    )
    await run('commit')
    expect(await found()).toEqual(unfinished)
    await keep(url).said('index build ended', { index: 'deliveries_next' })
    expect(await found()).toMatchObject({ isValid: true })
  })
})

/** Keeps the indexes until the test ends. */
function keep(url: string) {
  const lines: Array<{ event: string }> = []
  const log = logTo((_, event, fields) => lines.push({ event, ...fields }))
  const { stop } = keepIndexes({ url, log })
  onTestFinished(stop)
  const said = (event: string, fields: object) =>
    vi.waitFor(() => expect(lines).toContainEqual(expect.objectContaining({ event, ...fields })), {
      timeout: 20_000,
    })
  return { lines, said, stop }
}

async function indexesIn(client: { query: (text: string) => Promise<pg.QueryResult> }) {
  const { rows } = await client.query(
    `select indexdef from pg_indexes where schemaname = 'public' order by indexdef`,
  )
  return rows.map((row) => String(row.indexdef)).join('\n')
}
