import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { type SQL, sql } from 'drizzle-orm'
import { drizzle as drizzlePostgres } from 'drizzle-orm/node-postgres'
import { migrate as migratePostgres } from 'drizzle-orm/node-postgres/migrator'
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import { migrate as migratePglite } from 'drizzle-orm/pglite/migrator'
import pg from 'pg'
import * as schema from './schema.ts'

/** PGlite or PostgreSQL. Both have the same dialect, so no query needs to know which one it is. */
export type Database = PgDatabase<PgQueryResultHKT, typeof schema>

/** What works on a database and within a transaction. */
export type Transaction = Pick<Database, 'select' | 'insert' | 'update' | 'delete' | 'execute'>

export interface OpenDatabase {
  database: Database
  close(): Promise<void>
}

const migrationsFolder = join(import.meta.dirname, 'migrations')

// The advisory lock that a process takes before it migrates a shared PostgreSQL.
const migrationLock = 7_325_213

/** Opens and migrates PGlite in a folder, or in memory when none is given (for tests). */
export async function openPglite(folder?: string): Promise<OpenDatabase> {
  if (folder !== undefined) await mkdir(folder, { recursive: true, mode: 0o700 })
  const client = await PGlite.create(folder === undefined ? {} : { dataDir: folder })
  const database = drizzlePglite(client, { schema })
  await migratePglite(database, { migrationsFolder })
  return { database, close: () => client.close() }
}

// A server that is gone or a process that froze must not block the others for long. PostgreSQL ends
// the transaction of a frozen process before the processes that wait for its locks give up.
const timeouts = `set idle_in_transaction_session_timeout = '10s';
  set lock_timeout = '15s'; set statement_timeout = '20s'`

/**
 * Opens and migrates PostgreSQL. One process at a time migrates.
 * @param onIdleError is called when an idle connection broke. The pool replaces it.
 */
export async function openPostgres(
  url: string,
  onIdleError: (error: Error) => void,
): Promise<OpenDatabase> {
  // A connection without time limits, because a migration may take long. Closing it releases the lock.
  const migrator = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  // A failed query reports the error itself. Without a listener the error would end this process.
  migrator.on('error', () => {})
  try {
    await migrator.connect()
    const migrating = drizzlePostgres(migrator)
    await migrating.execute(sql`select pg_advisory_lock(${migrationLock})`)
    await migratePostgres(migrating, { migrationsFolder })
  } finally {
    await migrator.end()
  }

  const pool = new pg.Pool({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    query_timeout: 25_000,
    keepAlive: true,
    async onConnect(client) {
      // The pool listens only to idle connections.
      client.on('error', () => {})
      await client.query(timeouts)
    },
  })
  pool.on('error', onIdleError)
  const database = drizzlePostgres(pool, { schema })
  // Replaces Drizzle's own, which never releases a connection that breaks before `begin`.
  database.transaction = async (work, config) => {
    const client = await pool.connect()
    try {
      const result = await drizzlePostgres(client, { schema }).transaction(work, config)
      client.release()
      return result
    } catch (error) {
      // Close it, because its state is unknown.
      client.release(true)
      throw error
    }
  }
  return { database, close: () => pool.end() }
}

/** The rows of a query in SQL. The caller vouches for their shape. */
export async function rowsOf<Row>(database: Pick<Database, 'execute'>, query: SQL): Promise<Row[]> {
  // Both drivers return rows, but their common type does not say so.
  return ((await database.execute(query)) as unknown as { rows: Row[] }).rows
}
