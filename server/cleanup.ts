import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import type { Database } from './database/open.ts'
import {
  authorizations,
  channels,
  dealEvents,
  deliveries,
  sessions,
  users,
} from './database/schema.ts'
import { errorFields, type Log } from './log.ts'
import { deleteUnused } from './people/cleanup.ts'
import { deleteOld } from './relay/upkeep.ts'

/** Not at once, because the first requests come right after a start. */
const times = { firstMs: 20_000, everyMs: 24 * 60 * 60 * 1000, afterErrorMs: 10 * 60 * 1000 }

interface CleanupOptions {
  database: Database
  /** The database does not vacuum itself. PGlite never does, and its folder would only grow. */
  vacuum: boolean
  now?: () => Date
  log: Log
}

/**
 * Deletes what nobody needs any more, soon after the start and then daily. It works in the background
 * and in batches, so that neither the start nor a request waits for it.
 */
export function startCleanup(
  { database, vacuum, now = () => new Date(), log }: CleanupOptions,
  { firstMs, everyMs, afterErrorMs } = times,
): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping

  /** @returns when to clean up next, in ms. */
  async function cleanUp(): Promise<number> {
    try {
      const people = await deleteUnused(database, now(), signal)
      const events = await deleteOld(database, signal)
      if (vacuum) await vacuumTables()
      log('cleaned up', { ...people, ...events })
      return everyMs
    } catch (error) {
      if (!signal.aborted) log('clean-up failed', errorFields(error))
      return afterErrorMs
    }
  }

  async function vacuumTables(): Promise<void> {
    for (const table of [authorizations, sessions, users, dealEvents, deliveries, channels]) {
      signal.throwIfAborted()
      await database.execute(sql`vacuum ${table}`)
    }
  }

  async function run(): Promise<void> {
    let waitMs = firstMs
    while (!signal.aborted) {
      // Rejects only when it is aborted.
      await delay(waitMs, undefined, { signal, ref: false }).catch(() => {})
      if (!signal.aborted) waitMs = await cleanUp()
    }
  }

  const running = run()
  return {
    /** Resolves when the batch under way is finished. */
    async stop() {
      stopping.abort()
      await running
    },
  }
}
