import { type SQL, sql } from 'drizzle-orm'
import { drizzle as drizzlePostgres } from 'drizzle-orm/node-postgres'
import type { PgDatabase, PgQueryResultHKT } from 'drizzle-orm/pg-core'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import pg from 'pg'
import { migrateAlone, migrateShared } from './migrate.ts'
import { openFolder } from './pglite-folder.ts'
import { type HasRoom, hasRoomAt } from './room.ts'
import { Client, connectionTo, lookAtSession, setSession } from './session.ts'
import { logger } from './statements.ts'

/** PGlite or PostgreSQL. Both have the same SQL dialect, so queries are the same for both. */
export type Database = PgDatabase<PgQueryResultHKT>

export type Transaction = Pick<Database, 'select' | 'insert' | 'update' | 'delete' | 'execute'>

export interface OpenDatabase {
  database: Database
  /** False if the disk of PGlite's folder has too little room. */
  hasRoom: HasRoom
  /** The connections to PostgreSQL; undefined with PGlite. */
  pool?: () => { total: number; idle: number; waiting: number }
  close(): Promise<void>
}

/** Looks at a database before it is migrated. @throws Refused */
export type BeforeMigration = (database: Transaction) => Promise<void>

interface PgliteOptions {
  /** False: a power cut may lose what was committed or break the folder (for tests). */
  synced?: boolean
  beforeMigration?: BeforeMigration | undefined
  /** Is called with a sentence about what may end this process without a message. */
  warn?: ((sentence: string) => void) | undefined
}

/** Opens and migrates PGlite in a folder. */
export async function openPglite(
  folder: string,
  { synced = true, beforeMigration, warn = () => undefined }: PgliteOptions = {},
): Promise<OpenDatabase> {
  const client = await openFolder(folder, { synced, warn })
  const database = drizzlePglite(client, { logger })
  try {
    await beforeMigration?.(database)
    await migrateAlone(client)
  } catch (error) {
    await client.close()
    throw error
  }
  return { database, hasRoom: hasRoomAt(folder), close: () => client.close() }
}

/**
 * A frozen or crashed process must not hold up other processes for long. PostgreSQL ends the transaction of a
 * frozen process before other processes stop waiting for its locks.
 * @param statementMs how long a statement may take. With 0, nothing has a limit.
 */
function setLimits(set: 'set' | 'set local', statementMs: number): string {
  const limits = {
    idle_in_transaction_session_timeout: Math.min(10_000, statementMs / 2),
    lock_timeout: Math.min(15_000, statementMs * 0.75),
    statement_timeout: statementMs,
  }
  return Object.entries(limits)
    .map(([name, ms]) => `${set} ${name} = ${ms}`)
    .join('; ')
}

interface PostgresOptions {
  poolSize?: number
  /** How long a statement may take; 0 for any time. Migrations have no limit. */
  statementMs?: number
  beforeMigration?: BeforeMigration | undefined
  /** Is called when a migration does not get its locks, before it is tried again. */
  onBlocked?: (error: unknown) => void
}

/**
 * Opens and migrates PostgreSQL. One process at a time migrates.
 * @param onIdleError is called after an idle connection broke. The pool replaces the connection.
 */
export async function openPostgres(
  url: string,
  onIdleError: (error: Error) => void,
  {
    poolSize = 10,
    statementMs = 20_000,
    beforeMigration,
    onBlocked = () => undefined,
  }: PostgresOptions = {},
): Promise<OpenDatabase> {
  const { isPooled, schema } = await migratePostgres(url, { beforeMigration, onBlocked })
  const setLocalLimits = sql.raw(
    `${setLimits('set local', statementMs)}; ${setSession(schema, true)}`,
  )

  const pool = new pg.Pool({
    ...connectionTo(url),
    Client,
    max: poolSize,
    ...(statementMs > 0 && { query_timeout: statementMs + 5_000 }),
    async onConnect(client) {
      // The pool listens only to idle connections. Without a listener, an error ends this process.
      client.on('error', () => {})
      // A pooler may give each transaction another session, and this session to another program.
      if (!isPooled)
        await client.query(`${setLimits('set', statementMs)}; ${setSession(schema, false)}`)
    },
  })
  pool.on('error', onIdleError)
  const database = drizzlePostgres(pool, { logger })
  // Replace Drizzle's function, which never releases a connection that breaks before `begin`.
  database.transaction = async (work, config) => {
    const client = await pool.connect()
    try {
      const result = await drizzlePostgres(client, { logger }).transaction(async (tx) => {
        if (isPooled) await tx.execute(setLocalLimits)
        return await work(tx)
      }, config)
      client.release()
      return result
    } catch (error) {
      // Close the connection, because its state is unknown.
      client.release(true)
      throw error
    }
  }
  // A full disk of PostgreSQL fails single statements.
  return {
    database,
    hasRoom: () => true,
    pool: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    close: () => pool.end(),
  }
}

/**
 * Migrates while no other process does. One connection locks and migrates. With two, processes behind PgBouncer that
 * wait for the lock could use up the connections, and the one that has the lock would get no second one.
 */
async function migratePostgres(
  url: string,
  { beforeMigration, onBlocked }: Required<Pick<PostgresOptions, 'beforeMigration' | 'onBlocked'>>,
): Promise<{ isPooled: boolean; schema: string }> {
  const client = new Client(connectionTo(url))
  // A failed query already reports the error. Without a listener, the error would end this process.
  client.on('error', () => {})
  try {
    await client.connect()
    const session = await lookAtSession(client)
    await migrateShared(client, {
      // A migration may take long, and so may the wait for another process that migrates. The server, the role or a
      // pooler may have set limits.
      begin: `begin isolation level read committed read write; ${setLimits('set local', 0)}; ${setSession(session.schema, true)}`,
      beforeMigration: async () => beforeMigration?.(drizzlePostgres(client)),
      onBlocked,
    })
    return session
  } finally {
    await client.end()
  }
}

/** A database, or a transaction in it. */
export type Executor = Pick<Database, 'execute'>

/** Returns the rows of an SQL query. The caller must make sure that they have the type `Row`. */
export async function rowsOf<Row>(database: Executor, query: SQL): Promise<Row[]> {
  // Both drivers return rows, but their common type does not say so.
  return ((await database.execute(query)) as unknown as { rows: Row[] }).rows
}
