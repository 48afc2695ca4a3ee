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
import { type Db, fromPglite, PgBoss } from 'pg-boss'
import * as schema from './schema.ts'

/** PGlite and PostgreSQL speak one dialect; whoever queries does not know which it is. */
export type Database = PgDatabase<PgQueryResultHKT, typeof schema>

export interface OpenDatabase {
  database: Database
  /** The same database, as the queue (pg-boss) speaks to it. */
  queueDatabase: Db
  close(): Promise<void>
}

const migrationsFolder = join(import.meta.dirname, 'migrations')

// One number that every Dealbell process takes before it migrates a shared PostgreSQL.
const migrationLock = 7_325_213

/** PGlite in a folder, or in memory when none is named (for tests). Migrated before it is returned. */
export async function openPglite(folder?: string): Promise<OpenDatabase> {
  if (folder !== undefined) await mkdir(folder, { recursive: true, mode: 0o700 })
  const client = await PGlite.create(folder === undefined ? {} : { dataDir: folder })
  const database = drizzlePglite(client, { schema })
  await migratePglite(database, { migrationsFolder })
  return { database, queueDatabase: fromPglite(client), close: () => client.close() }
}

// Neither a server that is gone nor a process that froze may hold up the others for long. PostgreSQL
// ends the transaction of a frozen process before it gives up those that wait for it.
const patience = `set idle_in_transaction_session_timeout = '10s';
  set lock_timeout = '15s'; set statement_timeout = '20s'`

/**
 * PostgreSQL by its address. Migrated before it is returned, by one process at a time.
 * @param onIdleError hears of a connection that broke while nothing used it; the pool replaces it.
 */
export async function openPostgres(
  url: string,
  onIdleError: (error: Error) => void,
): Promise<OpenDatabase> {
  // Of its own, since a migration may take its time. Its end gives the lock back.
  const migrator = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  // Whoever waits for a query hears of it there; without a listener it would end this process.
  migrator.on('error', () => {})
  try {
    await migrator.connect()
    const migrating = drizzlePostgres(migrator)
    await migrating.execute(sql`select pg_advisory_lock(${migrationLock})`)
    await migratePostgres(migrating, { migrationsFolder })
    await migrateQueue({ executeSql: (text, values) => migrator.query(text, values) })
  } finally {
    await migrator.end()
  }

  const pool = new pg.Pool({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    query_timeout: 25_000,
    keepAlive: true,
    async onConnect(client) {
      // The pool itself listens to the idle ones alone.
      client.on('error', () => {})
      await client.query(patience)
    },
  })
  pool.on('error', onIdleError)
  const database = drizzlePostgres(pool, { schema })
  // In place of Drizzle's, which never gives back a connection that broke before its first word.
  database.transaction = async (work, config) => {
    const client = await pool.connect()
    try {
      const result = await drizzlePostgres(client, { schema }).transaction(work, config)
      client.release()
      return result
    } catch (error) {
      // Closed, whatever state it is in.
      client.release(true)
      throw error
    }
  }
  return {
    database,
    queueDatabase: { executeSql: (text, values) => pool.query(text, values) },
    close: () => pool.end(),
  }
}

/** The queue's own tables; two processes that make them at once would fail. */
async function migrateQueue(db: Db): Promise<void> {
  const boss = new PgBoss({ db, supervise: false, schedule: false })
  await boss.start()
  await boss.stop({ graceful: false, close: false })
}

/** The rows of a query that is written out. Its shape is the caller's word. */
export async function rowsOf<Row>(database: Pick<Database, 'execute'>, query: SQL): Promise<Row[]> {
  // Both drivers answer with rows; the type that stands for either does not say so.
  return ((await database.execute(query)) as unknown as { rows: Row[] }).rows
}
