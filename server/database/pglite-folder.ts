import fs from 'node:fs'
import { dirname, join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { UnusableFolder } from './lock.ts'
import { lackOfMemory, noteOpening, saveMemory } from './memory.ts'
import { renameWhenFree } from './rename.ts'
import { requireRoomAt } from './room.ts'
import { SyncedFolder, startParams, syncPath } from './synced-folder.ts'

/**
 * Opens PGlite's folder, or makes it. The caller must have locked the data folder.
 * @throws UnusableFolder if it has files but no database, or its database does not open.
 * @throws NoRoom if the disk has too little room.
 */
export async function openFolder(
  folder: string,
  { synced, warn }: { synced: boolean; warn: (sentence: string) => void },
): Promise<PGlite> {
  fs.mkdirSync(dirname(folder), { recursive: true, mode: 0o700 })
  // The folder may be on another disk.
  requireRoomAt(fs.existsSync(folder) ? folder : dirname(folder))
  const isNew = !fs.existsSync(join(folder, 'PG_VERSION'))
  const lack = lackOfMemory(isNew && !fs.existsSync(readyMadeFile))
  if (lack !== undefined) warn(lack)
  saveMemory()
  return await noteOpening(folder, warn, async () => {
    if (isNew) await create(folder, synced)
    return await openExisting(folder, synced)
  })
}

async function openExisting(folder: string, synced: boolean): Promise<PGlite> {
  // PGlite leaves this file, and does not start if it is empty. Our own lock protects the folder.
  fs.rmSync(join(folder, 'postmaster.pid'), { force: true })
  try {
    return await PGlite.create(
      synced ? { fs: new SyncedFolder(folder), startParams } : { dataDir: folder },
    )
  } catch (cause) {
    // An error of the system has a code.
    if (cause instanceof Error && 'code' in cause) throw cause
    throw new UnusableFolder('its database does not open, so a file of it may be damaged', {
      cause,
    })
  }
}

/**
 * Makes the folder under another name, so that it is complete or does not exist, whenever the process or
 * the machine stops.
 */
async function create(folder: string, synced: boolean): Promise<void> {
  if (fs.existsSync(folder) && fs.readdirSync(folder).length > 0) {
    throw new UnusableFolder('the folder pglite in it has files and no PG_VERSION')
  }
  const unfinished = isReplaceable(folder) ? `${folder}.new` : folder
  fs.rmSync(`${folder}.new`, { recursive: true, force: true })
  fs.mkdirSync(unfinished, { recursive: true, mode: 0o700 })
  const loadDataDir = readyMade()
  await (
    await PGlite.create({ dataDir: unfinished, startParams, ...(loadDataDir && { loadDataDir }) })
  ).close()
  if (synced) syncFolder(unfinished)
  if (unfinished !== folder) await renameWhenFree(unfinished, folder)
  if (synced) syncPath(dirname(folder))
}

const readyMadeFile = join(import.meta.dirname, 'new-database.tar.gz')

/** A new database of this PGlite, which a release brings with it: to make one takes 400 MB more. */
function readyMade(): Blob | undefined {
  return fs.existsSync(readyMadeFile)
    ? new Blob([fs.readFileSync(readyMadeFile)], { type: 'application/gzip' })
    : undefined
}

/** Removes an empty folder. @returns false if that is not possible, because a disk is mounted there. */
function isReplaceable(folder: string): boolean {
  try {
    if (fs.existsSync(folder)) fs.rmdirSync(folder)
    return true
  } catch {
    return false
  }
}

/** Writes everything in a new folder to the disk. PGlite does not do it when it creates a database. */
function syncFolder(folder: string): void {
  for (const path of fs.readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    syncPath(join(folder, path))
  }
  syncPath(folder)
}
