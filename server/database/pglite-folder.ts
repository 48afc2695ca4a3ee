import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import * as v from 'valibot'
import { UnusableFolder } from './lock.ts'
import { requireRoomAt } from './room.ts'
import { openSynced, syncPath } from './synced-folder.ts'

/**
 * Opens PGlite's folder, or makes it. The caller must have locked the data folder.
 * @throws UnusableFolder if rows may be missing.
 * @throws NoRoom if the disk has too little room.
 */
export async function openFolder(folder: string, synced = true): Promise<PGlite> {
  fs.mkdirSync(dirname(folder), { recursive: true, mode: 0o700 })
  // The folder may be on another disk.
  requireRoomAt(fs.existsSync(folder) ? folder : dirname(folder))
  if (fs.existsSync(join(folder, 'PG_VERSION'))) checkFiles(folder)
  else await create(folder, synced)
  // PGlite leaves this file, and does not start if it is empty. Our own lock protects the folder.
  fs.rmSync(join(folder, 'postmaster.pid'), { force: true })
  const client = await open(folder, synced)
  const close = client.close.bind(client)
  client.close = async () => {
    await close()
    recordFiles(folder)
  }
  return client
}

async function open(folder: string, synced: boolean): Promise<PGlite> {
  try {
    return await (synced ? openSynced(folder) : PGlite.create({ dataDir: folder }))
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
  if (fs.existsSync(recordOf(folder))) {
    throw new UnusableFolder('its database, the folder pglite, is missing')
  }
  const unfinished = isReplaceable(folder) ? `${folder}.new` : folder
  fs.rmSync(`${folder}.new`, { recursive: true, force: true })
  fs.mkdirSync(unfinished, { recursive: true, mode: 0o700 })
  await (await PGlite.create({ dataDir: unfinished })).close()
  if (synced) syncFolder(unfinished)
  if (unfinished !== folder) fs.renameSync(unfinished, folder)
  if (synced) syncPath(dirname(folder))
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
  for (const path of pathsIn(folder)) syncPath(join(folder, path))
  syncPath(folder)
}

/** What a folder held when PGlite closed it: the path and the bytes of each file. Folders have 0 bytes. */
const record = v.object({ control: v.string(), files: v.record(v.string(), v.number()) })

/**
 * The database makes these files again: it deletes its caches at a start, before it changes `pg_control`. Systems also
 * put files of their own into folders.
 */
const isDispensable =
  /^(postmaster\.pid$|pg_stat\/)|(^|\/)(pg_internal\.init.*|\.[^/]*|Thumbs\.db)$/

const recordOf = (folder: string) => `${folder}.files.json`

/**
 * Records the files of a folder that PGlite has closed. PGlite itself does not notice that a table is
 * missing or was cut off: its rows would be gone silently.
 */
function recordFiles(folder: string): void {
  const unfinished = `${recordOf(folder)}.new`
  try {
    const paths = pathsIn(folder).filter((path) => !isDispensable.test(path))
    const files = Object.fromEntries(paths.map((path) => [path, bytesOf(join(folder, path))]))
    fs.writeFileSync(unfinished, JSON.stringify({ control: controlOf(folder), files }), {
      mode: 0o600,
      flush: true,
    })
    fs.renameSync(unfinished, recordOf(folder))
  } catch {
    // The disk may be full. The next start then checks less.
    fs.rmSync(unfinished, { force: true })
  }
}

/** @throws UnusableFolder if a file is missing or shorter than at the end of the last process. */
function checkFiles(folder: string): void {
  const recorded = readRecord(folder)
  // After a crash the record is about an earlier state. PGlite then repeats what its log holds.
  if (recorded === undefined || recorded.control !== controlOf(folder)) return
  for (const [path, bytes] of Object.entries(recorded.files)) {
    const file = join(folder, path)
    if (!fs.existsSync(file)) throw new UnusableFolder(`pglite/${path} in it is missing`)
    // People may edit the settings.
    if (bytesOf(file) < bytes && !path.endsWith('.conf')) {
      throw new UnusableFolder(`pglite/${path} in it is cut off`)
    }
  }
}

function readRecord(folder: string) {
  try {
    return v.parse(record, JSON.parse(fs.readFileSync(recordOf(folder), 'utf8')))
  } catch {
    return undefined
  }
}

/** PostgreSQL changes this file whenever it opens or closes a folder. */
function controlOf(folder: string): string | undefined {
  try {
    const control = fs.readFileSync(join(folder, 'global/pg_control'))
    return createHash('sha256').update(control).digest('base64url')
  } catch {
    return undefined
  }
}

function bytesOf(path: string): number {
  const stat = fs.statSync(path)
  return stat.isDirectory() ? 0 : stat.size
}

/** The same on every system. */
function pathsIn(folder: string): string[] {
  const paths = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return paths.map((path) => path.replaceAll(sep, '/'))
}
