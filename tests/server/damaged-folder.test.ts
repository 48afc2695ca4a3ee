import { execFileSync } from 'node:child_process'
import { cpSync, rmSync, statSync, truncateSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { lockFolder, UnusableFolder } from '../../server/database/lock.ts'
import { openPglite } from '../../server/database/open.ts'
import { connections, users } from '../../server/database/schema.ts'
import { createVault, keyFromFolder } from '../../server/people/vault.ts'
import { newDataFolder } from '../database.ts'
import { canMount, mountSmallDisk } from '../small-disk.ts'
import { outputOf } from './program.ts'

vi.setConfig({ testTimeout: 300_000 })

const people = 2_000
type Damage = 'missing' | 'empty' | 'cut off'

let closed: string
let killed: string

/** A data folder with rows, as a server leaves it when it ends, and as one that was killed leaves it. */
beforeAll(async () => {
  const folder = await newDataFolder()
  const { database, close } = await openPglite(join(folder, 'pglite'))
  const secrets = createVault([await keyFromFolder(folder)]).seal('token', 'connections')
  await database.execute(
    sql`insert into users select gen_random_uuid() from generate_series(1, ${people})`,
  )
  await database.execute(sql`
    insert into connections (user_id, provider, secrets, account_id, grant_id, connected_at)
    select id, 'hubspot', ${secrets}, '1', 'g', now() from users limit 1`)
  killed = await newDataFolder()
  cpSync(folder, killed, { recursive: true })
  await close()
  closed = folder
})

function copyOf(folder: string): string {
  const copy = `${folder}-copy-${Math.random()}`
  cpSync(folder, copy, { recursive: true })
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }))
  return copy
}

function damage(path: string, how: Damage): void {
  if (how === 'missing') rmSync(path, { recursive: true })
  else truncateSync(path, how === 'empty' ? 0 : Math.floor(statSync(path).size / 2))
}

function damagesOf(path: string): Damage[] {
  const stats = statSync(path)
  if (stats.isDirectory() || stats.size === 0) return ['missing']
  return stats.size === 1 ? ['missing', 'empty'] : ['missing', 'empty', 'cut off']
}

/** @returns how many rows a start finds, or why there is none. */
async function open(folder: string): Promise<number | string> {
  const opened = await openPglite(join(folder, 'pglite')).catch((error: unknown) => {
    if (error instanceof UnusableFolder) return error.message
    throw error
  })
  if (typeof opened === 'string') return opened
  const { database, close } = opened
  try {
    const count = await database.$count(connections)
    return count === 1 ? await database.$count(users) : `${count} connections`
  } finally {
    await close()
  }
}

test.runIf(canMount)('an empty disk that is mounted for the database is used', async () => {
  const disk = mountSmallDisk(512)
  if (disk === undefined) throw new Error('The disk cannot be mounted.')
  onTestFinished(() => disk.unmount())
  const folder = await newDataFolder()
  rmSync(join(folder, 'pglite'), { recursive: true })
  await mkdir(join(folder, 'pglite'))
  execFileSync('mount', ['--bind', disk.folder, join(folder, 'pglite')])
  onTestFinished(() => {
    execFileSync('umount', ['--lazy', join(folder, 'pglite')])
  })
  expect(await open(folder)).toBe('0 connections')
})

const isOfOthers = 'the folder pglite in it has files and no PG_VERSION'
describe('after a kill, the database checks itself', () => {
  // What the database needs to start. Its tables are in `base`; of their files it notices only some.
  const names = [
    'PG_VERSION',
    'base',
    'global/pg_control',
    'global/pg_filenode.map',
    'pg_multixact/offsets/0000',
    'pg_wal',
    'pg_xact',
    'postmaster.pid',
  ]

  test.each(names)('if %s is damaged', async (name) => {
    for (const how of damagesOf(join(killed, 'pglite', name))) {
      const folder = copyOf(killed)
      damage(join(folder, 'pglite', name), how)
      const found = await open(folder)
      if (typeof found === 'number') expect([how, found]).toEqual([how, people])
      else expect(found).not.toMatch(/Aborted|failed to initialize/)
    }
  })

  test('and all rows of an intact folder are there', async () => {
    expect(await open(copyOf(killed))).toBe(people)
  })
})

test('encryption.key is missing: the server process says so in one sentence', async () => {
  const folder = copyOf(closed)
  rmSync(join(folder, 'encryption.key'))
  const said = await outputOf(['server/main.ts'], { DATA_DIR: folder })
  expect(said).toMatch(/^ENCRYPTION_KEY does not open 1 of 1 stored connections\. .*\nexit 1$/)
})

test.each(['missing', 'empty', 'cut off'] as const)(
  'all rows are there if the files that only name the process are %s',
  async (how) => {
    const folder = copyOf(closed)
    lockFolder(folder).release()
    for (const name of ['lock', 'lock.pid']) {
      const path = join(folder, name)
      if (damagesOf(path).includes(how)) damage(path, how)
    }
    lockFolder(folder).release()
    expect(await open(folder)).toBe(people)
  },
)

test("files of somebody else in the database's folder are refused and stay", async () => {
  const folder = join(await newDataFolder(), 'other')
  await mkdir(join(folder, 'pglite'), { recursive: true })
  await writeFile(join(folder, 'pglite', 'thesis.txt'), 'x')
  expect(await open(folder)).toBe(isOfOthers)
  expect(await readdir(join(folder, 'pglite'))).toEqual(['thesis.txt'])
})

test('a first start that was killed while it made the database begins again', async () => {
  const folder = join(await newDataFolder(), 'fresh')
  await mkdir(join(folder, 'pglite.new/base'), { recursive: true })
  await mkdir(join(folder, 'pglite'))
  expect(await open(folder)).toBe('0 connections')
  expect(await readdir(folder)).toEqual(['pglite'])
})
