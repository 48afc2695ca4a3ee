import { sql } from 'drizzle-orm'
import { type Database, Refused, rowsOf, type Transaction } from '../database/open.ts'
import { ownTables } from '../database/tables.ts'
import { fillAsOf, lastMigrationOf, tableNames } from '../database/version.ts'
import { checkKeys } from '../people/keys.ts'
import type { Vault } from '../people/vault.ts'
import { readDataFile } from './data-file.ts'

/** PGlite makes no checkpoints itself, so the log of a large import would fill the disk. */
const rowsPerCheckpoint = 50_000

/**
 * Writes all rows of a file to an empty database, or none.
 * @param migration is that of the file.
 * @param checkpoints True for PGlite. PostgreSQL makes them itself.
 * @param onRows gets the number of rows so far.
 * @throws Error if the database is not empty, or `readDataFile` throws.
 */
export async function importData(
  database: Database,
  {
    path,
    vault,
    migration,
    checkpoints,
    onRows,
  }: {
    path: string
    vault: Vault
    migration: string
    checkpoints: boolean
    onRows: (count: number) => void
  },
): Promise<void> {
  if ((await lastMigrationOf(database)) === undefined) {
    throw new Error('A newer Dealbell has used the database. Import with that release.')
  }
  await database.transaction(async (tx) => {
    // The disk of the file may be slow.
    await tx.execute(sql`set local idle_in_transaction_session_timeout = '5min'`)
    const tables = sql.join(ownTables().map(sql.identifier), sql`, `)
    await tx.execute(sql`lock table ${tables} in share row exclusive mode`)
    await requireEmpty(tx)
    // The file may have one, and its key was checked.
    await tx.execute(sql`delete from key_check`)
    let count = 0
    let checkpointAt = rowsPerCheckpoint
    async function insert(name: string, rows: string, length: number): Promise<void> {
      const table = sql.identifier(name)
      await tx.execute(
        sql`insert into ${table} overriding system value
            select * from json_populate_recordset(null::${table}, ${rows}::json)`,
      )
      count += length
      onRows(count)
      if (!checkpoints || count < checkpointAt) return
      checkpointAt = count + rowsPerCheckpoint
      await tx.execute(sql`checkpoint`)
    }
    // Leases need no change: they end by their times. A delivery that was being sent keeps its mark.
    await fillAsOf(tx, migration, async () => {
      await readDataFile(path, vault, { onRows: insert })
    })
    await advanceSequences(tx)
    // The tokens may have another key than the file, if the key was changed right before the export.
    await checkKeys(tx, vault)
  })
}

/**
 * Checks that a database has no tables but Dealbell's, of any release, and that they have no rows. A started server may
 * have left `key_check`. @throws Refused
 */
export async function requireEmpty(tx: Transaction): Promise<void> {
  const known = ownTables()
  const names = await tableNames(tx)
  const foreign = names.filter((name) => !known.includes(name))
  if (foreign.length > 0) {
    throw new Refused(
      `The database also has tables of another program: ${foreign.join(', ')}. Import into a database of Dealbell alone.`,
    )
  }
  for (const name of names) {
    if (name === 'key_check') continue
    const rows = await rowsOf(tx, sql`select from ${sql.identifier(name)} limit 1`)
    if (rows.length > 0) {
      throw new Refused(
        'The database is not empty. Import into a new one: an empty database of PostgreSQL, or a DATA_DIR that no server has used.',
      )
    }
  }
}

/** Makes new rows get ids after those of the imported rows. */
async function advanceSequences(tx: Transaction): Promise<void> {
  const columns = await rowsOf<{ table: string; column: string }>(
    tx,
    sql`select table_name as "table", column_name as "column" from information_schema.columns
        where table_schema = 'public' and is_identity = 'YES'`,
  )
  for (const { table, column } of columns) {
    await tx.execute(
      sql`select setval(pg_get_serial_sequence(${table}, ${column}), max(${sql.identifier(column)}))
          from ${sql.identifier(table)}`,
    )
  }
}
