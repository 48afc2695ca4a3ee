import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getTableName, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createDataFile } from '../../server/cli/data-file.ts'
import { exportData } from '../../server/cli/export.ts'
import { importData } from '../../server/cli/import.ts'
import {
  type BeforeMigration,
  type Database,
  type OpenDatabase,
  openPglite,
  openPostgres,
  Refused,
  rowsOf,
} from '../../server/database/open.ts'
import { crmAccounts, deliveries, rules, sessions, users } from '../../server/database/schema.ts'
import { exportedTables, tablesLeftOut } from '../../server/database/tables.ts'
import { knownMigrations, tableNames } from '../../server/database/version.ts'
import { createVault } from '../../server/people/vault.ts'
import {
  type DatabaseKind,
  databaseKinds,
  newDatabase,
  newDataFolder,
  newFolder,
  newPostgresDatabase,
  openTestDatabase,
} from '../database.ts'
import { startBackend } from '../relay/backend.ts'
import { dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { connectAccount, drained, serverEnv, startServer } from '../relay/process.ts'
import { outputOf } from './program.ts'

// A test starts several processes.
vi.setConfig({ testTimeout: 120_000 })

const folder = await newFolder()
const outside = await openOutside()
afterAll(outside.close)
let last = 0
const newPath = () => join(folder, String(++last))

const key = randomBytes(32)
const options = { vault: createVault([key]), onRows: () => undefined }
const migration = knownMigrations().at(-1)?.tag ?? ''

async function openEmpty(kind: DatabaseKind): Promise<OpenDatabase> {
  const open = await openTestDatabase(kind)
  onTestFinished(open.close)
  return open
}

/** All rows that belong into an export, as text. */
async function rowsIn(database: Database): Promise<string[]> {
  const all = exportedTables().map((table) => sql`select row_to_json(${table})::text from ${table}`)
  return await database.transaction(async (tx) => {
    await tx.execute(sql`set local timezone = 'UTC'`)
    const rows = await rowsOf<{ row_to_json: string }>(tx, sql.join(all, sql` union all `))
    return rows.map((row) => row.row_to_json).sort()
  })
}

test('each table is in an export, or is named as left out', async () => {
  const { database } = await openEmpty('PGlite')
  const known = [...exportedTables(), ...tablesLeftOut].map(getTableName)
  expect(known.sort()).toEqual(await tableNames(database))
})

test.each([
  ['PGlite', 'PGlite'],
  ['PGlite', 'PostgreSQL'],
  ['PostgreSQL', 'PGlite'],
] as const)(
  'from %s to %s every row goes along but sessions, a pending message is sent once, and new changes follow it',
  async (from, to) => {
    const [path, portal] = [newPath(), last]
    const posts = () => outside.posts.filter(({ channel }) => channel === `C${portal}`)
    const source = await openEmpty(from)
    const idle = await startBackend(source, outside, { key, working: false })
    const userId = await idle.connect({ portal, channel: `C${portal}` })
    expect((await idle.call(userId, '/api/notifications/rules')).status).toBe(200)
    const change = stageChange(1, { portal })
    await idle.tell([change])
    // JSON leaves the line separator as it is.
    await source.database.update(deliveries).set({ dealName: '"\u2028\r\n\\🔔</script>' })
    await exportData(source.database, { ...options, path })

    const target = await openEmpty(to)
    const { database } = target
    await importData(database, { ...options, path, migration, checkpoints: to === 'PGlite' })
    expect(await rowsIn(database)).toEqual(await rowsIn(source.database))
    expect(await source.database.$count(sessions)).toBe(1)
    expect(await database.$count(sessions)).toBe(0)

    const working = await startBackend(target, outside, { key, alone: to === 'PGlite' })
    onTestFinished(working.stop)
    await working.settled()
    await working.tell([stageChange(2, { portal }), change])
    await working.settled()
    expect(posts().map(dealsIn)).toEqual([[1], [2]])
  },
)

test('an export of PostgreSQL shows one moment, whatever is written meanwhile', async () => {
  const { database } = await openEmpty('PostgreSQL')
  const path = newPath()
  let exporting: Promise<unknown> = Promise.resolve()
  await database.transaction(async (tx) => {
    await tx.execute(sql`lock table rules in access exclusive mode`)
    exporting = exportData(database, { ...options, path })
    // The export has read the users, and waits for the rules.
    await vi.waitUntil(async () => {
      const waiting = sql`select from pg_locks where relation = 'rules'::regclass and not granted`
      return (await rowsOf(database, waiting)).length > 0
    }, 9_000)
    const [user] = await tx.insert(users).values({}).returning()
    await tx.insert(rules).values({ userId: user?.id ?? '', ruleIds: [], savedAt: new Date() })
  })
  await exporting
  expect(await readFile(path, 'utf8')).toMatch(/\n\{"hash":"[^"]+"\}\n$/)
})

test('a file of an older release becomes what an update would have made of its database', async () => {
  const { database } = await openEmpty('PGlite')
  const path = newPath()
  // Its next migration begins to search the accounts of all connections.
  const older = knownMigrations()[4]?.tag ?? ''
  const file = await createDataFile(path, options.vault, older)
  const userId = randomUUID()
  await file.write('users', [JSON.stringify({ id: userId, created_at: new Date() })])
  const connection = {
    ...{ id: randomUUID(), user_id: userId, provider: 'hubspot', stand_in: false, account_id: '7' },
    ...{ grant_id: 'g', secrets: options.vault.seal('', 'x'), connected_at: new Date() },
  }
  await file.write('connections', [JSON.stringify(connection)])
  await file.end()
  await importData(database, { ...options, path, migration: older, checkpoints: true })
  expect(await database.select().from(crmAccounts)).toMatchObject([{ accountId: '7' }])
})

test('an import into PostgreSQL has no time limit, and writes what the command then counts', async () => {
  const source = await openEmpty('PGlite')
  await source.database.insert(users).values([{}, {}])
  const path = newPath()
  await exportData(source.database, { ...options, path })

  const DATABASE_URL = await newPostgresDatabase()
  const { database, close } = await openPostgres(DATABASE_URL, () => undefined)
  onTestFinished(close)
  const limits = ['statement_timeout', 'lock_timeout'].map((name) => `current_setting('${name}')`)
  await database.execute(`create schema seen; create table seen.limits (of_statement text, of_lock text);
    create function seen.note() returns trigger language plpgsql as
      $$ begin insert into seen.limits values (${limits.join()}); return null; end $$;
    create trigger note after insert on users execute function seen.note()`)
  const said = await outputOf(['server/cli/data.ts', 'import', path], {
    ...{ DATABASE_URL, DATA_DIR: newPath(), ENCRYPTION_KEY: key.toString('base64') },
  })
  expect(said).toMatch(/\d+ rows were imported\. .*\nexit 0$/)
  expect(await database.$count(users)).toBe(2)
  const seen = await rowsOf(database, sql`select * from seen.limits`)
  expect(seen).toEqual([{ of_statement: '0', of_lock: '0' }])
})

test.each(databaseKinds)(
  'import and export leave a database of an older release on %s as it is, and say what updates it',
  async (kind) => {
    const [source, path] = [await openEmpty('PGlite'), newPath()]
    await exportData(source.database, { ...options, path })
    const place = await newDatabase(kind)
    const { database, close } = await openTarget(place)
    await database.insert(users).values({})
    await database.execute(sql`drop table recent_calls`)
    await database.execute(
      sql`delete from ${migrations} where created_at = (select max(created_at) from ${migrations})`,
    )
    await close()
    const before = await stateOf(place)
    expect(before.tables).not.toContain('recent_calls')

    const isFull = /^The database is not empty\. .*\nexit 1$/
    expect(await command(place, 'data.ts', 'import', path)).toMatch(isFull)
    const refusal =
      'The database is empty or of an older release. Use that release, or start the server of this one (npm start): it updates the database.\nexit 1'
    expect(await command(place, 'data.ts', 'export', newPath())).toBe(refusal)
    expect(await stateOf(place)).toEqual(before)
  },
)

test.each(databaseKinds)('on a database of a newer release on %s, export refuses', async (kind) => {
  const place = await newDatabase(kind)
  const newer = await openTarget(place)
  await newer.database.execute(
    sql`insert into ${migrations} (hash, created_at) select 'next', max(created_at) + 1 from ${migrations}`,
  )
  await newer.close()
  expect(await command(place, 'data.ts', 'export', newPath())).toBe(
    'A newer Dealbell has used the database. Export it with that release.\nexit 1',
  )
})

type Place = Awaited<ReturnType<typeof newDatabase>>

const migrations = sql`drizzle.__drizzle_migrations`

const command = (place: Place, file: string, ...args: string[]) =>
  outputOf([`server/cli/${file}`, ...args], {
    ENCRYPTION_KEY: key.toString('base64'),
    ...('url' in place ? { DATABASE_URL: place.url } : { DATA_DIR: place.folder }),
  })

/** Looks without migrating. */
async function stateOf(place: Place) {
  let state: { tables: string[]; migrations: unknown[] } = { tables: [], migrations: [] }
  const opening = openTarget(place, async (database) => {
    const rows = await rowsOf(database, sql`select * from ${migrations} order by id`)
    state = { tables: await tableNames(database), migrations: rows }
    throw new Refused('The test only looks.')
  })
  await expect(opening).rejects.toThrow('only looks')
  return state
}

const openTarget = (place: Place, look?: BeforeMigration) =>
  'url' in place
    ? openPostgres(place.url, () => undefined, { beforeMigration: look })
    : openPglite(join(place.folder, 'pglite'), { synced: false, beforeMigration: look })

test('a server on a folder is backed up while it works; its copy goes on in a new folder', async () => {
  const path = newPath()
  const [oldFolder, newFolder] = [await newDataFolder(), newPath()]
  const data = (command: string, dataDir: string, port = 1) =>
    outputOf(['server/cli/data.ts', command, path], {
      ...serverEnv({ outside, database: { folder: dataDir } }, port),
      DEBUG: '',
    } as Record<string, string>)
  outside.answerPost = () => ({ status: 503 })
  // A killed export left it.
  await mkdir(join(oldFolder, 'pglite.copy'))
  const old = await startServer({ outside, database: { folder: oldFolder } })
  onTestFinished(old.kill)
  expect(await readdir(oldFolder)).not.toContain('pglite.copy')
  await connectAccount(old, { portal: 7, channel: 'C7' })
  await old.tell([stageChange(3, { portal: 7 })])
  const port = Number(new URL(old.url).port)

  const said = await data('export', oldFolder, port)
  expect(said).toMatch(/^The server has copied its folder \(\d+ MB\)\..* \d+ ms/)
  expect(said).toMatch(/ has \d+ rows\. .*\nexit 0$/)
  expect(await readdir(oldFolder)).not.toContain('pglite.copy')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await data('export', oldFolder, port)).toBe(
    `${path} exists already. Choose another name.\nexit 1`,
  )
  expect(await data('import', oldFolder, port)).toContain(`A server uses the folder ${oldFolder}`)
  await old.kill()
  expect(await data('import', oldFolder)).toContain('The database is not empty.')

  expect(await data('import', newFolder)).toMatch(/\d+ rows were imported\. .*\nexit 0$/)
  outside.answerPost = () => undefined
  const server = await startServer({ outside, database: { folder: newFolder } })
  onTestFinished(server.kill)
  await drained(server, 20_000)
  expect(outside.posts.filter(({ channel }) => channel === 'C7').map(dealsIn)).toEqual([[3]])
})

describe('a file is refused, and nothing is written, if it', () => {
  let target: OpenDatabase
  /** The last one is empty. */
  let lines: string[]
  beforeAll(async () => {
    target = await openTestDatabase('PGlite')
    await target.database.insert(users).values([{}, {}])
    const path = newPath()
    await exportData(target.database, { ...options, path })
    await target.database.delete(users)
    lines = (await readFile(path, 'utf8')).split('\n')
  })
  afterAll(() => target.close())

  const otherKey = createVault([randomBytes(32)])
  const cutOff = /is cut off: its last line is missing\./
  test.each<[string, (lines: string[]) => string[], RegExp, typeof otherKey?]>([
    ['has another key', (all) => all, /with another encryption key\. Set ENCRYPTION_KEY/, otherKey],
    ['is cut off after a row', (all) => all.slice(0, 3), cutOff],
    ['is cut off in a row', ([first = '', row = '']) => [first, row.slice(0, 50)], cutOff],
    ['has another value', (all) => all.with(1, all[1]?.replace(':"2', ':"1') ?? ''), /was changed/],
    ['goes on after its end', (all) => all.with(-1, all[1] ?? ''), /was changed/],
    ['is something else', () => ['-- PostgreSQL database dump'], /was not made by/],
    ['is empty', () => [], /was not made by/],
    ['has no line end', () => ['x'.repeat(2 ** 24 + 1)], /has a line that is longer than any/],
  ])('%s', async (_, change, reason, vault = options.vault) => {
    const path = newPath()
    await writeFile(path, change(lines).join('\n'))
    const more = { path, vault, migration, checkpoints: true }
    const importing = importData(target.database, { ...options, ...more })
    await expect(importing).rejects.toThrow(reason)
    expect(await rowsIn(target.database)).toEqual([])
  })

  test('comes without its key, is of a newer release or was changed: the command opens no database', async () => {
    const [path, newer, changed, dataDir] = [newPath(), newPath(), newPath(), newPath()]
    await writeFile(path, lines.join('\n'))
    await writeFile(newer, lines.join('\n').replace(migration, '9999_next'))
    await writeFile(changed, lines.toSpliced(1, 1).join('\n'))
    const said = (from: string, ENCRYPTION_KEY = key.toString('base64')) =>
      outputOf(['server/cli/data.ts', 'import', from], { DATA_DIR: dataDir, ENCRYPTION_KEY })
    expect(await said(path, '')).toMatch(/^There is no encryption key\. .*\nexit 1$/)
    expect(await said(newer)).toMatch(/ is of a newer Dealbell\. .*\nexit 1$/)
    expect(await said(changed)).toMatch(/ was changed .*\nexit 1$/)
    expect(existsSync(dataDir)).toBe(false)
  })
})
