import { setTimeout as delay } from 'node:timers/promises'
import { type SQL, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
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

/** Calls `change` with some of these ids at a time. @returns the sum of what it returns. */
export async function inBatchesOf(
  ids: readonly string[],
  change: (some: string[]) => Promise<number>,
): Promise<number> {
  let changed = 0
  let next = 0
  await inBatches(async () => {
    const some = ids.slice(next, next + batchRows)
    next += batchRows
    if (some.length > 0) changed += await change(some)
    return some.length
  })
  return changed
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
