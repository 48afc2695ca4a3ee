import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

export interface FolderLock {
  release(): void
}

/**
 * Takes the data folder for this process, since PGlite would let two write to it at once.
 *
 * SQLite is used for its lock alone: it is the operating system's own, so it ends with the process
 * that holds it, however that dies. There is no stale lock to judge, no pid to mistake for another
 * process's, and no moment between looking and taking. The pid beside it is only for the message.
 * @throws Error that names the process that holds the folder.
 */
export function lockFolder(folder: string): FolderLock {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const pidFile = join(folder, 'lock.pid')
  const handle = new DatabaseSync(join(folder, 'lock'))
  try {
    // Long enough for a process that is just ending, or that has yet to write its pid.
    handle.exec('PRAGMA busy_timeout = 300')
    handle.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    handle.close()
    if (!isBusy(error)) throw error
    throw new Error(
      `The data folder ${folder} is in use by another Dealbell (process ${holder(pidFile)}). ` +
        'Stop that one first, or set DATA_DIR to another folder.',
      { cause: error },
    )
  }
  writeFileSync(pidFile, `${process.pid}\n`)
  return { release: () => handle.close() }
}

function holder(pidFile: string): string {
  try {
    return readFileSync(pidFile, 'utf8').trim() || 'unknown'
  } catch {
    return 'unknown'
  }
}

// SQLITE_BUSY is 5 in SQLite's list of result codes.
function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === 5
}
