import { randomUUID } from 'node:crypto'
import { cpSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { inject } from 'vitest'
import { type OpenDatabase, openPglite, openPostgres } from '../server/database/open.ts'

export type DatabaseKind = 'PGlite' | 'PostgreSQL'

/** The databases that the relay is tested on. PostgreSQL is left to `npm run test:all`. */
export const databaseKinds: readonly DatabaseKind[] =
  process.env.TEST_ALL === '1' ? ['PGlite', 'PostgreSQL'] : ['PGlite']

/** A data folder for a server, whose database has no rows. A copy takes a tenth of the time of a new one. */
export async function newDataFolder(): Promise<string> {
  const { template, copies } = inject('dataFolders')
  const folder = join(copies, randomUUID())
  // `cp` goes back to JavaScript for each of the thousand files, and takes ten times as long.
  cpSync(template, folder, { recursive: true })
  return folder
}

/** An empty folder. It is deleted when all tests have ended. */
export async function newFolder(): Promise<string> {
  return await mkdtemp(join(inject('dataFolders').copies, 'empty-'))
}

/** The address of a new, empty database on the tests' PostgreSQL. */
export async function newPostgresDatabase(): Promise<string> {
  const server = inject('postgresUrl')
  if (server === undefined) throw new Error('Tests on PostgreSQL run only with TEST_ALL=1.')
  const name = `test_${randomUUID().replaceAll('-', '')}`
  const client = new pg.Client({ connectionString: server })
  await client.connect()
  await client.query(`create database ${name}`)
  await client.end()
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

export async function openTestDatabase(kind: DatabaseKind): Promise<OpenDatabase> {
  if (kind === 'PostgreSQL') return await openPostgres(await newPostgresDatabase(), () => undefined)
  const folder = await newDataFolder()
  // The tests end no machine, and a sync takes longer than most statements.
  const open = await openPglite(join(folder, 'pglite'), { synced: false })
  return {
    ...open,
    async close() {
      await open.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** What `startServer` needs for a new database of this kind. */
export async function newDatabase(
  kind: DatabaseKind,
): Promise<{ folder: string } | { url: string }> {
  return kind === 'PGlite'
    ? { folder: await newDataFolder() }
    : { url: await newPostgresDatabase() }
}
