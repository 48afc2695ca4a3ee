import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { is } from 'drizzle-orm'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core'
import { errorCode } from '../log.ts'
import { Refused } from './refused.ts'
import * as schema from './schema.ts'

// Drizzle's migrator keeps one journal for all programs of a database, compares only times, and locks tables for as long
// as all migrations together take. So ours has a journal of its own, by hash, and never lets others wait for long.

interface Connection {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
}

export const migrations = readMigrationFiles({
  migrationsFolder: join(import.meta.dirname, 'migrations'),
}).map(({ sql, folderMillis }) => {
  // Git may have written other line ends.
  const text = sql.join('--> statement-breakpoint').replaceAll('\r\n', '\n')
  const statements = sql.map((each) => each.replaceAll(/^\s*--.*$/gm, '').trim())
  const hash = createHash('sha256').update(text).digest('hex')
  const record = `insert into dealbell_migrations (hash) values ('${hash}')`
  return { hash, at: folderMillis, statements, record }
})

const indexStatement = /^(?:create index "(\w+)" on "(\w+)"|drop index "(\w+)")/i

/** The indexes that migrations make, by name. One without `create` is dropped by a later migration. */
export const indexes = new Map<string, { table: string; create: string | undefined }>()
for (const statement of migrations.flatMap(({ statements }) => statements)) {
  const [, created = '', table = '', dropped = ''] = indexStatement.exec(statement) ?? []
  if (created !== '') indexes.set(created, { table, create: statement })
  const unused = indexes.get(dropped)
  if (unused !== undefined) unused.create = undefined
}

/** Migrates a database that nobody else uses, in one transaction. @throws Refused */
export async function migrateAlone(connection: Connection): Promise<void> {
  await connection.query('begin')
  try {
    const { pending } = await readJournal(connection)
    for (const { statements, record } of pending) {
      for (const each of [...statements, record]) await connection.query(each)
    }
    await requireSchema(connection)
    await connection.query('commit')
  } catch (error) {
    await connection.query('rollback')
    throw inWords(error)
  }
}

// A process takes this advisory lock before it migrates a shared PostgreSQL.
const migrationLock = 7_325_213
/** PostgreSQL ends one of two transactions that wait for each other after a second. It must not be the other one. */
const longestBlockMs = 300
const pauseMs = 2_000

interface Shared {
  /** Begins a transaction without time limits. */
  begin: string
  beforeMigration: () => Promise<void>
  /** A table is in use. The migration is tried again. */
  onBlocked: (error: unknown) => void
}

/**
 * Migrates a database that other processes use. Each migration has its own transaction, whose locks let nobody wait for
 * long. Its indexes are left to indexes.ts, unless the database is new. @throws Refused
 */
export async function migrateShared(
  connection: Connection,
  { begin, beforeMigration, onBlocked }: Shared,
): Promise<void> {
  for (;;) {
    try {
      await connection.query(begin)
      // A lock of the session would stay behind in a session of PgBouncer.
      await connection.query(`select pg_advisory_xact_lock(${migrationLock})`)
      await beforeMigration()
      const { pending, isNew } = await readJournal(connection)
      if (pending.length === 0) break
      const statements = (isNew ? pending : pending.slice(0, 1)).flatMap((each) => [
        ...each.statements.filter((statement) => isNew || !indexStatement.test(statement)),
        each.record,
      ])
      const locks = isNew ? [] : await locksFor(connection, statements)
      // As one message: a process that gets no time of its processor would prolong the locks.
      await connection.query([...locks, ...statements, 'commit'].join(';\n'))
    } catch (error) {
      // The lock was not available, in this time, or without a deadlock.
      if (!['55P03', '57014', '40P01'].includes(errorCode(error) ?? '')) throw inWords(error)
      await connection.query('rollback')
      onBlocked(error)
      await delay(pauseMs)
    }
  }
  await requireSchema(connection)
  await connection.query('commit')
}

function inWords(error: unknown): unknown {
  // duplicate_table: this also means an index.
  if (errorCode(error) !== '42P07') return error
  return new Refused(
    `The database has tables that this release of Dealbell has not made: ${Object(error).message}. Give Dealbell an empty database.`,
  )
}

/** Reads which migrations the database has. */
async function readJournal(connection: Connection) {
  await connection.query(
    `create table if not exists dealbell_migrations (
       hash text primary key, applied_at timestamptz not null default now())`,
  )
  const { rows } = await connection.query('select hash from dealbell_migrations')
  const applied = new Set(rows.map((row) => Object(row).hash))
  return { pending: migrations.filter(({ hash }) => !applied.has(hash)), isNew: applied.size === 0 }
}

/** Returns the statements that lock what others change. Nobody waits for longer than `longestBlockMs`. */
async function locksFor(connection: Connection, statements: readonly string[]): Promise<string[]> {
  const names = [
    ...statements.join('\n').matchAll(/(?:alter table|references) (?:"public"\.)?"(\w+)"/gi),
  ]
  const { rows } = await connection.query(
    `select distinct quote_ident(name) as name from unnest($1::text[]) as name
     where to_regclass(quote_ident(name)) is not null`,
    [names.map(([, name]) => name)],
  )
  const shortly = `set local lock_timeout = ${longestBlockMs}`
  if (rows.length === 0) return [shortly]
  const tables = rows.map((row) => Object(row).name).join()
  // No statement of the relay waits for this. But autovacuum gives way to it, after a second.
  await connection.query('set local lock_timeout = 5000')
  await connection.query(`lock table ${tables} in share update exclusive mode`)
  return [
    shortly,
    // The limit of a lock is for each table, and this one is for all.
    `set local statement_timeout = ${longestBlockMs}`,
    `lock table ${tables} in access exclusive mode`,
    'set local statement_timeout = 0',
  ]
}

/** @throws Refused if a table or a column of the schema does not exist. */
async function requireSchema(connection: Connection): Promise<void> {
  const columns = Object.values(schema)
    .filter((each) => is(each, PgTable))
    .map((table) => getTableConfig(table))
    .flatMap(({ name, columns }) => columns.map((column) => ({ table: name, column: column.name })))
  const { rows } = await connection.query(
    `select distinct "table" || case when to_regclass(quote_ident("table")) is null then '' else '.' || "column" end as name
     from json_to_recordset($1::json) as wanted("table" text, "column" text)
     where not exists (select from pg_attribute
       where attrelid = to_regclass(quote_ident("table")) and attname = "column" and not attisdropped)
     order by name`,
    [JSON.stringify(columns)],
  )
  if (rows.length === 0) return
  const missing = rows.map((row) => Object(row).name).join(', ')
  throw new Refused(
    `The database lacks ${missing}, although all migrations of this release have been applied to it. Another program has changed it, or only a part was restored: restore a backup.`,
  )
}
