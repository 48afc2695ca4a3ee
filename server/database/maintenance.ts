import { sql } from 'drizzle-orm'
import { type Background, repeatInBackground } from '../background.ts'
import { errorFields, type Log } from '../log.ts'
import { type Database, rowsOf } from './open.ts'
import type { HasRoom } from './room.ts'

const defaultEveryMs = 5_000
/** A checkpoint after this much log took 80 to 280 ms. */
const logBytesPerCheckpoint = 64 * 1024 * 1024
/**
 * A table is analyzed after a tenth of its rows has changed, as autovacuum does, but after so many changes at the
 * latest. A backlog of this size may be small beside the rows of 30 days, and yet its index must not be read as a whole.
 */
const mostChanges = 5_000

/**
 * Does for PGlite what PostgreSQL does by itself. PGlite makes no checkpoints until it is closed, so its log would only
 * grow. It never analyzes a table, so its planner would not know how many rows there are. Logs when the disk begins to
 * have too little room, and when it has room again.
 */
export function maintainPglite(
  { database, hasRoom, log }: { database: Database; hasRoom: HasRoom; log: Log },
  everyMs: number = defaultEveryMs,
): Background {
  let had = true

  async function maintain(): Promise<number> {
    const has = hasRoom()
    if (has && !had) log('the disk has room again')
    if (!has && had) log.error('the disk has too little room')
    had = has
    if (await isCheckpointDue(database)) await database.execute(sql`checkpoint`)
    for (const table of await changedTables(database)) {
      await database.execute(sql`analyze ${sql.identifier(table)}`)
    }
    return everyMs
  }

  return repeatInBackground(maintain, {
    firstMs: 0,
    onError(error) {
      log.error('upkeep of the database failed', errorFields(error))
      return everyMs
    },
  })
}

async function isCheckpointDue(database: Database): Promise<boolean> {
  const [row] = await rowsOf<{ due: boolean }>(
    database,
    sql`select pg_current_wal_insert_lsn() - redo_lsn > ${logBytesPerCheckpoint} as due
        from pg_control_checkpoint()`,
  )
  return row?.due === true
}

/** The tables that have changed since they were analyzed. Once after a start these are all: PGlite forgets its counts. */
async function changedTables(database: Database): Promise<string[]> {
  // Otherwise PGlite keeps the latest counts to itself.
  await database.execute(sql`select pg_stat_force_next_flush()`)
  const tables = await rowsOf<{ name: string }>(
    database,
    sql`select relname as name from pg_stat_user_tables
        where schemaname = 'public' and (
          last_analyze is null or n_mod_since_analyze > least(50 + n_live_tup / 10, ${mostChanges}::int)
        )`,
  )
  return tables.map(({ name }) => name)
}
