import { setTimeout as delay } from 'node:timers/promises'
import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core'
import { type Database, rowsOf } from './open.ts'

/** Deleting this many rows takes a few milliseconds, also with the rows that go along. */
export const batchRows = 250

/**
 * Repeats `batch` until it finds no more rows. After each batch it rests as long as the batch took, so
 * that requests get at least half of the database's time. PGlite works on the thread that answers them.
 * @param batch returns how many rows it found.
 * @throws AbortError when `signal` is aborted. The batch under way is finished first.
 */
export async function inBatches(batch: () => Promise<number>, signal?: AbortSignal): Promise<void> {
  for (;;) {
    signal?.throwIfAborted()
    const began = performance.now()
    if ((await batch()) === 0) return
    await delay(performance.now() - began, undefined, signal && { signal })
  }
}

/**
 * A condition on a table's `id`: one of up to a batch of rows for which `column` is one of `ids` and
 * `condition` holds. PGlite keeps no statistics, and for a plain `column = any(ids)` it would read the
 * whole table. This looks each id up in the index.
 */
export function refersToOne(column: PgColumn, ids: SQL, condition: SQL = sql`true`): SQL {
  return sql`id = any(array(
    select found.id from unnest(${ids}) as one(id) cross join lateral (
      select id from ${column.table} where ${column} = one.id and ${condition} limit ${batchRows}
    ) as found limit ${batchRows}
  ))`
}

/** Deletes the rows of a table that meet a condition. @returns how many. */
export async function deleteInBatches(
  database: Database,
  table: PgTable,
  condition: SQL | undefined,
  signal?: AbortSignal,
): Promise<number> {
  let deleted = 0
  await inBatches(async () => {
    // Another process may delete the same rows. Skipping what it has locked avoids a deadlock.
    const rows = await rowsOf(
      database,
      sql`delete from ${table} where ctid = any(array(
            select ctid from ${table} where ${condition} limit ${batchRows} for update skip locked
          )) returning 1`,
    )
    deleted += rows.length
    return rows.length
  }, signal)
  return deleted
}
