import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import pg from 'pg'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import * as thisIndexes from '../../server/database/indexes.ts'
import * as thisMigrate from '../../server/database/migrate.ts'
import * as thisOpen from '../../server/database/open.ts'
import { logTo } from '../../server/log.ts'
import { databaseKinds, newPostgresDatabase } from '../database.ts'
import { droppedIndex, nextIndexes, nextServer } from '../next-release.ts'

const releases = {
  this: { ...thisIndexes, ...thisMigrate, ...thisOpen },
  /** A made-up one. */
  next: { ...thisIndexes, ...thisMigrate, ...thisOpen },
}
type Release = keyof typeof releases

beforeAll(async () => {
  const folder = join(await nextServer(), 'server/database')
  const modules = ['indexes.ts', 'migrate.ts', 'open.ts'].map((name) => import(join(folder, name)))
  releases.next = Object.assign({}, ...(await Promise.all(modules)))
})

async function newPglite() {
  const client = await PGlite.create()
  onTestFinished(() => client.close())
  return {
    run: (text: string): Promise<unknown> => client.exec(text),
    start: (release: Release) => releases[release].migrateAlone(client),
  }
}

async function newPostgres() {
  const url = await newPostgresDatabase()
  const client = await connect(url)
  return {
    url,
    run: (text: string): Promise<unknown> => client.query(text),
    async start(release: Release, onBlocked = () => {}) {
      const { close } = await releases[release].openPostgres(url, () => undefined, { onBlocked })
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
  const newDatabase = kind === 'PGlite' ? newPglite : newPostgres

  test('the next release finds what this one has stored, and this one starts on its database', async () => {
    const { run, start } = await newDatabase()
    await start('this')
    await run(`insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at)
        values ('key', 'hubspot', '1', '1', 'dealstage', 'next', now());
      insert into users default values;
      insert into deliveries (event_id, user_id, channel, occurred_at, finished_at)
        select deal_events.id, users.id, 'T/C', now(), now() from deal_events, users`)
    for (const release of ['next', 'next', 'this', 'next'] as const) await start(release)
    await run(`do $$ begin assert (select made_up from deliveries) = 'former'; end $$`)
  })

  test('the start says which columns are missing', async () => {
    const { run, start } = await newDatabase()
    await start('this')
    await run('alter table deliveries drop column form, drop column rule_id')
    await run('drop table used_tokens')
    const missing = 'The database lacks deliveries.form, deliveries.rule_id, used_tokens, although'
    await expect(start('this')).rejects.toThrow(missing)
  })
})

test('the start says that the tables of the database belong to another program', async () => {
  const { run, start } = await newPglite()
  await run('create table users (name text)')
  const message =
    'The database has tables that this release of Dealbell has not made: relation "users"'
  await expect(start('this')).rejects.toThrow(message)
})

describe.runIf(databaseKinds.includes('PostgreSQL'))('on a PostgreSQL that is in use', () => {
  const longestWaitMs = 1_500

  test('a migration that does not get its locks lets inserts pass, and is applied later', async () => {
    const { url, run, start } = await newPostgres()
    await start('this')
    // As pg_dump does.
    await run('begin; lock table channels in access share mode')
    const inserting = await connect(url)
    let tries = 0
    const starting = start('next', () => tries++)
    let longestMs = 0
    for (let id = 0; tries < 2; id++) {
      const beganMs = performance.now()
      await inserting.query(`insert into channels (id) values (${id})`)
      longestMs = Math.max(longestMs, performance.now() - beganMs)
    }
    expect(longestMs).toBeLessThan(longestWaitMs)
    await run('commit')
    await starting
    await run('select made_up from channels')
  })

  test('indexes are built after the start by one process, and those that they replace are dropped after them', async () => {
    const { url, start } = await newPostgres()
    await start('this')
    await start('next')
    const client = await connect(url)
    expect(await indexesIn(client)).toContain(droppedIndex)
    for (const name of nextIndexes) expect(await indexesIn(client)).not.toContain(name)
    const lines = [keep(url), keep(url)].map((each) => each.lines)
    await vi.waitFor(async () => expect(await indexesIn(client)).not.toContain(droppedIndex), {
      timeout: 20_000,
    })
    // As in a new database.
    const fresh = await newPostgres()
    await fresh.start('next')
    expect(await indexesIn(client)).toBe(await indexesIn(await connect(fresh.url)))
    const events = lines.flat().map(({ event }) => event)
    expect(events.filter((event) => event === 'index build ended')).toHaveLength(nextIndexes.length)
    expect(events).not.toContain('index build failed')
  })

  test('a build whose process has ended goes on, and one that died is made again', async () => {
    const { url, run, start } = await newPostgres()
    await start('this')
    await start('next')
    const observer = await connect(url)
    const found = async () => {
      const { rows } = await observer.query(
        `select indexrelid as id, indisvalid as "isValid" from pg_index
         where indexrelid = to_regclass('deliveries_made_up')`,
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
    await keep(url).said('index build ended', { index: 'deliveries_made_up' })
    expect(await found()).toMatchObject({ isValid: true })
  })
})

/** Keeps the indexes of the next release until the test ends. */
function keep(url: string) {
  const lines: Array<{ event: string }> = []
  const log = logTo((_, event, fields) => lines.push({ event, ...fields }))
  const { stop } = releases.next.keepIndexes({ url, log })
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
