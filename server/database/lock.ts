import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Another process holds the data folder. */
export class FolderInUse extends Error {}

/** The data folder is damaged or not ours. The text goes on after 'DATA_DIR is …, but'. */
export class UnusableFolder extends Error {}

export type FolderLock = ReturnType<typeof lockFolder>

/**
 * Locks the data folder for this process, because PGlite would let two write to it at once. SQLite is only the lock: it
 * belongs to the operating system and ends with the process (decision 102).
 * @throws FolderInUse that names the process that holds the folder.
 */
export function lockFolder(folder: string) {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const pidFile = join(folder, 'lock.pid')
  const handle = new DatabaseSync(join(folder, 'lock'))
  try {
    // Wait a moment: the other process may be ending, or may not have written its process id yet.
    handle.exec('PRAGMA busy_timeout = 300')
    handle.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    handle.close()
    if (!isBusy(error)) throw error
    throw new FolderInUse(
      `The data folder ${folder} is in use by another Dealbell (process ${holder(pidFile)}). ` +
        'Stop that process first, or set DATA_DIR to another folder.',
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
