// What nobody needs any more. Soon after the start and then daily, each file here deletes its part, in the background and
// in batches, so that neither the start nor a request waits for it. This folder needs only the tables. What an error or a
// stop cuts off, the next run deletes.

import { getTableName, sql } from 'drizzle-orm'
import { type Background, repeatInBackground } from '../background.ts'
import { type Database, rowsOf } from '../database/open.ts'
import type { HasRoom } from '../database/room.ts'
import {
  channels,
  connections,
  crmAccounts,
  crmBudgets,
  dealEvents,
  deliveries,
  sessions,
  usedTokens,
  users,
} from '../database/schema.ts'
import { errorFields, type Log } from '../log.ts'
import { forgetDealsOfDisconnected } from './deal-names.ts'
import { deleteOld } from './deliveries.ts'
import { deleteUnused } from './people.ts'

/** Not at once, because the first requests come right after a start. */
const times = { firstMs: 20_000, everyMs: 24 * 60 * 60 * 1000, afterErrorMs: 10 * 60 * 1000 }

/** The tables whose rows change often. */
const vacuumed = [
  usedTokens,
  sessions,
  users,
  connections,
  crmAccounts,
  crmBudgets,
  dealEvents,
  deliveries,
  channels,
]

interface CleanupOptions {
  database: Database
  /** The database does not vacuum itself. PGlite never does, and its folder would only grow. */
  vacuum: boolean
  hasRoom?: HasRoom
  now?: () => Date
  log: Log
}

export function startCleanup(
  { database, vacuum, hasRoom = () => true, now = () => new Date(), log }: CleanupOptions,
  { firstMs, everyMs, afterErrorMs } = times,
): Background {
  async function cleanUp(signal: AbortSignal): Promise<number> {
    const people = await deleteUnused(database, now(), signal)
    const events = await deleteOld(database, signal)
    const namesOfDeals = await forgetDealsOfDisconnected(database, signal)
    if (vacuum) await vacuumTables(signal)
    log('cleaned up', { ...people, ...events, namesOfDeals })
    return everyMs
  }

  async function vacuumTables(signal: AbortSignal): Promise<void> {
    for (const table of vacuumed) {
      signal.throwIfAborted()
      // In one statement, a vacuum may write each page of the table to the database's log.
      const [size] = await rowsOf<{ bytes: number }>(
        database,
        sql`select pg_total_relation_size(${getTableName(table)})::float8 as bytes`,
      )
      if (hasRoom(size?.bytes)) await database.execute(sql`vacuum ${table}`)
      else log.warn('no room to vacuum', { table: getTableName(table) })
    }
  }

  return repeatInBackground(cleanUp, {
    firstMs,
    onError(error) {
      log.error('clean-up failed', errorFields(error))
      return afterErrorMs
    },
  })
}
