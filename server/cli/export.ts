import { getTableName, sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../database/open.ts'
import { exportedTables } from '../database/tables.ts'
import { lastMigrationOf } from '../database/version.ts'
import type { Vault } from '../people/vault.ts'
import { createDataFile } from './data-file.ts'

/**
 * Writes all rows to a new file, as they are at one moment.
 * @param onRows gets the number of rows so far.
 * @returns the number of rows.
 */
export async function exportData(
  database: Database,
  { path, vault, onRows }: { path: string; vault: Vault; onRows: (count: number) => void },
): Promise<number> {
  let count = 0
  return await database.transaction(
    async (tx) => {
      // The disk of the file may be slow.
      await tx.execute(sql`set local idle_in_transaction_session_timeout = '5min'`)
      const migration = await lastMigrationOf(tx)
      if (migration === undefined) {
        throw new Error('A newer Dealbell has used the database. Export it with that release.')
      }
      const file = await createDataFile(path, vault, migration)
      for (const table of exportedTables()) {
        await tx.execute(
          sql`declare exported no scroll cursor for
              select row_to_json(${table})::text as row from ${table}`,
        )
        for (;;) {
          const rows = await rowsOf<{ row: string }>(tx, sql`fetch 1000 from exported`)
          if (rows.length === 0) break
          const json = rows.map(({ row }) => row)
          await file.write(getTableName(table), json)
          count += rows.length
          onRows(count)
        }
        await tx.execute(sql`close exported`)
      }
      await file.end()
      return count
    },
    { isolationLevel: 'repeatable read', accessMode: 'read only' },
  )
}
