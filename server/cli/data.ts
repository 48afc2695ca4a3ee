import { randomUUID } from 'node:crypto'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { link, rename, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import * as v from 'valibot'
import { FolderInUse, lockFolder } from '../database/lock.ts'
import { type OpenDatabase, openPglite } from '../database/open.ts'
import { copyPlaceOf } from '../database/pglite-folder.ts'
import { syncPath } from '../database/synced-folder.ts'
import { knownMigrations, refuseToMigrate } from '../database/version.ts'
import { createVault, type Vault } from '../people/vault.ts'
import { loadEnvironment } from '../settings/environment.ts'
import { openDatabase } from '../settings/open-database.ts'
import { shownError } from '../settings/open-errors.ts'
import { parseEnv, type Settings } from '../settings/settings.ts'
import { expandHome } from '../settings/text-file.ts'
import { readDataFile } from './data-file.ts'
import { exportData } from './export.ts'
import { importData, requireEmpty } from './import.ts'
import { askServer, requireStored, storedKeys, withDataFolder } from './running-server.ts'

/** `npm run data -- export|import FILE`: keeps a copy of all data, and moves it to another database. */
const usage = `Usage: npm run data -- export FILE   writes all data but sessions to a new file, also while the server runs
       npm run data -- import FILE   reads such a file into an empty database`

/** The answer of the server. */
const copied = v.union([
  v.object({ bytes: v.number(), blockedMs: v.number() }),
  v.object({ running: v.literal(true) }),
])

// What an unfinished run must not leave behind, also after Ctrl-C.
const unfinished = new Set<string>()
process.on('exit', () => {
  for (const path of unfinished) rmSync(path, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => process.exit(1))

try {
  loadEnvironment()
  const [command, file, ...more] = process.argv.slice(2)
  const isKnown = command === 'export' || command === 'import'
  if (!isKnown || file === undefined || more.length > 0) throw new Error(usage)
  const path = expandHome(file)
  // A copy takes as long as it takes: an import of an older file builds whole indexes.
  const settings = { ...parseEnv(process.env), databaseStatementMs: 0 }
  await (command === 'export' ? exportTo(path, settings) : importFrom(path, settings))
} catch (error) {
  console.error(shownError(error))
  process.exitCode = 1
}

async function exportTo(path: string, settings: Settings): Promise<void> {
  if (existsSync(path)) throw new Error(`${path} exists already. Choose another name.`)
  if (settings.databaseUrl === undefined) requireStored(settings)
  const vault = await openVault(settings)
  // Another export to this file may run.
  const part = `${path}.${randomUUID()}.part`
  unfinished.add(part)

  async function exportFrom({ database, close }: OpenDatabase): Promise<number> {
    try {
      return await exportData(database, { path: part, vault, onRows: progress('exported') })
    } finally {
      await close()
    }
  }
  const open = async () =>
    await exportFrom(await openDatabase(settings, { beforeMigration: refuseToMigrate }))
  const count =
    settings.databaseUrl === undefined
      ? await withDataFolder(settings, open, async () => await fromServer(settings, exportFrom))
      : await open()
  await appear(part, path)
  unfinished.delete(part)
  console.log(
    `${path} has ${inWords(count)} rows. Keep the encryption key too: it is not in the file.`,
  )
}

/** Gives a complete file its name, and keeps a file that has this name already. */
async function appear(part: string, path: string): Promise<void> {
  try {
    await link(part, path)
    await unlink(part)
  } catch (error) {
    const { code } = Object(error)
    if (code === 'EEXIST') throw new Error(`${path} exists already. Choose another name.`)
    // Some file systems have no links.
    if (existsSync(path)) throw error
    await rename(part, path)
  }
  syncPath(dirname(path))
}

/** Lets the server that holds the folder copy it, and reads the copy. */
async function fromServer<Result>(
  settings: Settings,
  work: (copy: OpenDatabase) => Promise<Result>,
): Promise<Result> {
  const place = copyPlaceOf(join(settings.dataDir, 'pglite'))
  const lock = lockPlace(place)
  unfinished.add(place)
  try {
    // A process that was killed may have left copies.
    for (const name of readdirSync(place)) {
      if (!name.startsWith('lock')) rmSync(join(place, name), { recursive: true, force: true })
    }
    const name = randomUUID()
    const copy = join(place, name)
    const next = () =>
      askServer(settings, `/relay/copy/${name}`, copied, { method: 'POST', timeoutS: 30 })
    let answer = await next()
    while ('running' in answer) answer = await next()
    const { bytes, blockedMs } = answer
    const mb = Math.ceil(bytes / 1e6)
    console.error(
      `The server has copied its folder (${inWords(mb)} MB). Its database waited ${blockedMs} ms for that.`,
    )
    return await work(await openPglite(copy, { synced: false }))
  } finally {
    lock.release()
    rmSync(place, { recursive: true, force: true })
    unfinished.delete(place)
  }
}

function lockPlace(place: string) {
  try {
    return lockFolder(place)
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw error
    throw new Error('Another export runs. Wait for its end.', { cause: error })
  }
}

async function importFrom(path: string, settings: Settings): Promise<void> {
  const vault = await openVault(settings)
  let migration = ''
  const total = await readDataFile(path, vault, {
    onHeader(header) {
      migration = header.migration
      if (knownMigrations().some(({ tag }) => tag === migration)) return
      throw new Error(`${path} is of a newer Dealbell. Import it with that release.`)
    },
  })
  async function openAndImport(): Promise<void> {
    // A database that is not empty must stay as it is. So look before the migration, too.
    const { database, hasRoom, close } = await openDatabase(settings, {
      beforeMigration: requireEmpty,
    })
    try {
      // What the rows and their indexes take, and the database's log.
      if (!hasRoom(2 * (await stat(path)).size)) {
        throw new Error(
          `The disk of DATA_DIR, ${settings.dataDir}, has too little room. The import needs about twice the size of ${path}.`,
        )
      }
      const onRows = progress('imported', total)
      const checkpoints = settings.databaseUrl === undefined
      await importData(database, { path, vault, migration, checkpoints, onRows })
    } finally {
      await close()
    }
  }
  if (settings.databaseUrl === undefined) {
    await withDataFolder(settings, openAndImport, async () => {
      throw new Error(
        `A server uses the folder ${settings.dataDir} of DATA_DIR. Stop it, or set DATA_DIR to another folder.`,
      )
    })
  } else await openAndImport()
  console.log(`${inWords(total)} rows were imported. Start the server.`)
}

async function openVault(settings: Settings): Promise<Vault> {
  const keys = await storedKeys(settings)
  if (keys !== undefined) return createVault(keys)
  throw new Error(
    `There is no encryption key. Set ENCRYPTION_KEY as for the server, or copy its file encryption.key to ${settings.dataDir} (DATA_DIR).`,
  )
}

/** @returns a function that says now and then how far it is. */
function progress(verb: string, total?: number): (count: number) => void {
  const ofAll = total === undefined ? '' : ` of ${inWords(total)}`
  let last = performance.now()
  return (count) => {
    if (performance.now() - last < 5_000) return
    last = performance.now()
    console.error(`${verb} ${inWords(count)}${ofAll} rows …`)
  }
}

function inWords(count: number): string {
  return count.toLocaleString('en')
}
