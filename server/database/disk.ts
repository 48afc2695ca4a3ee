import { sql } from 'drizzle-orm'
import { type Background, repeatInBackground } from '../background.ts'
import { errorFields, type Log } from '../log.ts'
import { type Database, rowsOf } from './open.ts'
import type { HasRoom } from './room.ts'

const defaultEveryMs = 5_000
/** A checkpoint after this much log took 80 to 280 ms. */
const logBytesPerCheckpoint = 64 * 1024 * 1024

/**
 * Watches the disk of PGlite's folder. Logs when the database begins to refuse what writes, and when it
 * goes on. Makes the checkpoints: PGlite itself makes none until it is closed, so its log would only grow.
 */
export function watchDisk(
  { database, hasRoom, log }: { database: Database; hasRoom: HasRoom; log: Log },
  everyMs: number = defaultEveryMs,
): Background {
  let had = true

  async function watch(): Promise<number> {
    const has = hasRoom()
    if (has !== had) log(has ? 'the disk has room again' : 'the disk has too little room')
    had = has
    if (has && (await isCheckpointDue(database))) await database.execute(sql`checkpoint`)
    return everyMs
  }

  return repeatInBackground(watch, {
    firstMs: 0,
    onError(error) {
      log('checkpoint failed', errorFields(error))
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
