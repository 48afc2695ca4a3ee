import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { getTableName, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { exportData, importData, tablesInOrder } from '../../server/cli/copy.ts'
import { writeNewFile } from '../../server/cli/new-file.ts'
import {
  type Database,
  type OpenDatabase,
  rowsOf,
  type Transaction,
} from '../../server/database/open.ts'
import { deliveries } from '../../server/database/schema.ts'
import { createVault } from '../../server/people/vault.ts'
import { type DatabaseKind, newDataFolder, newFolder, openTestDatabase } from '../database.ts'
import { startBackend } from '../relay/backend.ts'
import { dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { connectAccount, drained, serverEnv, startServer } from '../relay/process.ts'
import { outputOf } from './program.ts'

// A test starts several processes.
vi.setConfig({ testTimeout: 300_000 })

const folder = await newFolder()
const outside = await openOutside()
afterAll(outside.close)
let last = 0
const newPath = () => join(folder, String(++last))
const exportTo = (path: string, database: Database) =>
  writeNewFile(path, (write) => exportData(database, write))

const key = randomBytes(32)
const vault = createVault([key])

async function openEmpty(kind: DatabaseKind): Promise<OpenDatabase> {
  const open = await openTestDatabase(kind)
  onTestFinished(open.close)
  return open
}

/** All rows, as text. */
async function rowsIn(database: Database): Promise<string[]> {
  const all = tablesInOrder().map((table) => sql`select row_to_json(${table})::text from ${table}`)
  return await database.transaction(async (tx) => {
    await tx.execute(sql`set local timezone = 'UTC'`)
    const rows = await rowsOf<{ row_to_json: string }>(tx, sql.join(all, sql` union all `))
    return rows.map((row) => row.row_to_json).sort()
  })
}

async function tableNames(database: Transaction): Promise<string[]> {
  const tables = sql`select tablename as name from pg_tables
    where schemaname = 'public' and tablename <> 'dealbell_migrations' order by name`
  return (await rowsOf<{ name: string }>(database, tables)).map(({ name }) => name)
}

test('each table is in an export', async () => {
  const { database } = await openEmpty('PGlite')
  expect(tablesInOrder().map(getTableName).sort()).toEqual(await tableNames(database))
})

test('an export is a new file of its owner, and leaves alone what has its name, also a link', async () => {
  const write = (path: string) => writeNewFile(path, (write) => write('secret'))
  const path = newPath()
  // Somebody else may be able to write to the folder.
  const open = newPath()
  await writeFile(open, 'open', { mode: 0o666 })
  for (const name of [path, `${path}.part`]) {
    await writeFile(name, 'before')
    await expect(write(path)).rejects.toThrow(`${name} exists already.`)
    expect(await readFile(name, 'utf8')).toBe('before')
    await rm(name)
    for (const target of [open, join(folder, 'nowhere')]) {
      await symlink(target, name)
      await expect(write(path)).rejects.toThrow(`${name} exists already.`)
      await rm(name)
    }
  }
  expect([await readFile(open, 'utf8'), existsSync(join(folder, 'nowhere'))]).toEqual([
    'open',
    false,
  ])
  // What was cut off leaves nothing.
  await expect(
    writeNewFile(path, () => Promise.reject(new Error('The server ended.'))),
  ).rejects.toThrow('The server ended.')
  expect((await readdir(folder)).filter((name) => name.includes('.part'))).toEqual([])
  await write(path)
  expect([await readFile(path, 'utf8'), (await stat(path)).mode & 0o777]).toEqual(['secret', 0o600])
})

test.each([
  ['PGlite', 'PGlite'],
  ['PGlite', 'PostgreSQL'],
  ['PostgreSQL', 'PGlite'],
] as const)(
  'from %s to %s every row goes along, a pending message is sent once, and new changes follow it',
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
    const count = await exportTo(path, source.database)

    const target = await openEmpty(to)
    const { database } = target
    expect(await importData(database, path, vault)).toBe(count)
    expect(await rowsIn(database)).toEqual(await rowsIn(source.database))

    const working = await startBackend(target, outside, { key, alone: to === 'PGlite' })
    onTestFinished(working.stop)
    await working.settled()
    await working.tell([stageChange(2, { portal }), change])
    await working.settled()
    expect(posts().map(dealsIn)).toEqual([[1], [2]])
  },
)

test('a stopped server on a folder is moved to a new folder, and goes on there', async () => {
  const path = newPath()
  const [oldFolder, newFolder] = [await newDataFolder(), newPath()]
  const data = (command: string, dataDir: string) =>
    outputOf(['server/cli/data.ts', command, path], {
      ...serverEnv({ outside, database: { folder: dataDir } }, 1),
      DEBUG: '',
    } as Record<string, string>)
  outside.answerPost = () => ({ status: 503 })
  const old = await startServer({ outside, database: { folder: oldFolder } })
  onTestFinished(old.kill)
  await connectAccount(old, { portal: 7, channel: 'C7' })
  await old.tell([stageChange(3, { portal: 7 })])

  expect(await data('export', oldFolder)).toMatch(
    /is in use by another Dealbell \(process \d+\)\. Stop that process first.*\nexit 1$/,
  )
  await old.kill()
  expect(await data('export', oldFolder)).toMatch(/ has \d+ rows\. .*\nexit 0$/)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
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
    const source = await openTestDatabase('PGlite')
    const backend = await startBackend(source, outside, { key, working: false })
    await backend.connect({ portal: 9, channel: 'C9' })
    const path = newPath()
    await exportTo(path, source.database)
    lines = (await readFile(path, 'utf8')).split('\n')
    await source.close()
    target = await openTestDatabase('PGlite')
  })
  afterAll(() => target.close())

  const otherVault = createVault([randomBytes(32)])
  const cutOff = /is cut off or was changed\./
  const ofOthers = /was not made by .* of this release\./
  test.each<[string, (lines: string[]) => string[] | Buffer, RegExp, typeof vault?]>([
    ['has tokens of another key', (all) => all, /ENCRYPTION_KEY does not open 2 of 2/, otherVault],
    ['lacks rows', (all) => all.toSpliced(-3, 1), cutOff],
    ['is of another release', ([, ...rest]) => ['{"dealbell":1}', ...rest], ofOthers],
    ['is in UTF-16', (all) => Buffer.from(`\uFEFF${all.join('\n')}`, 'utf16le'), /is in UTF-16\./],
    ['is compressed', (all) => gzipSync(all.join('\n')), /is compressed\. Unpack it first/],
    [
      'lacks rows after a byte order mark',
      (all) => [`\uFEFF${all[0]}`, ...all.slice(1).toSpliced(-3, 1)],
      cutOff,
    ],
    ['is something else', () => ['-- PostgreSQL database dump', ''], ofOthers],
  ])('%s', async (_, change, reason, ofReader = vault) => {
    const path = newPath()
    const changed = change(lines)
    await writeFile(path, Array.isArray(changed) ? changed.join('\n') : changed)
    await expect(importData(target.database, path, ofReader)).rejects.toThrow(reason)
    expect(await rowsIn(target.database)).toEqual([])
  })

  test('does not exist', async () => {
    await expect(importData(target.database, newPath(), vault)).rejects.toThrow(
      /cannot be read \(ENOENT\)\./,
    )
  })
})
