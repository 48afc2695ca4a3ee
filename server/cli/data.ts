import type { BeforeMigration, Database } from '../database/open.ts'
import { createVault } from '../people/vault.ts'
import { loadEnvironment } from '../settings/environment.ts'
import { openDatabase } from '../settings/open-database.ts'
import { endWithReader, lockDataDir, shownError } from '../settings/open-errors.ts'
import { parseEnv, type Settings } from '../settings/settings.ts'
import { expandHome } from '../settings/text-file.ts'
import { exportData, importData, requireEmpty, requireThisRelease } from './copy.ts'
import { writeNewFile } from './new-file.ts'
import { requireStored, storedKeys } from './running-server.ts'

const usage = `Usage: npm run data -- export FILE   writes all data to a new file
       npm run data -- import FILE   reads such a file into an empty database
First stop the server.`

endWithReader()
try {
  loadEnvironment()
  const [command, file, ...more] = process.argv.slice(2)
  const isKnown = command === 'export' || command === 'import'
  if (!isKnown || file === undefined || more.length > 0) throw new Error(usage)
  // A copy takes as long as it takes.
  const settings = { ...parseEnv(process.env), databaseStatementMs: 0 }
  await (command === 'export' ? exportTo : importFrom)(expandHome(file), settings)
} catch (error) {
  console.error(shownError(error))
  process.exitCode = 1
}

async function exportTo(path: string, settings: Settings): Promise<void> {
  if (settings.databaseUrl === undefined) requireStored(settings)
  const count = await writeNewFile(path, (write) =>
    withDatabase(settings, requireThisRelease, (database) => exportData(database, write)),
  )
  console.log(
    `${path} has ${inWords(count)} rows. Keep the encryption key too: it is not in the file.`,
  )
}

async function importFrom(path: string, settings: Settings): Promise<void> {
  const keys = await storedKeys(settings)
  if (keys === undefined) {
    throw new Error(
      `There is no encryption key. Set ENCRYPTION_KEY as for the server, or copy its file encryption.key to ${settings.dataDir} (DATA_DIR).`,
    )
  }
  const count = await withDatabase(settings, requireEmpty, async (database) => {
    await requireThisRelease(database)
    return await importData(database, path, createVault(keys))
  })
  console.log(`${inWords(count)} rows were imported. Start the server.`)
}

/** Opens the database for `work`, while no server can open the same folder. */
async function withDatabase<Result>(
  settings: Settings,
  beforeMigration: BeforeMigration,
  work: (database: Database) => Promise<Result>,
): Promise<Result> {
  const lock = settings.databaseUrl === undefined ? lockDataDir(settings) : undefined
  try {
    const { database, close } = await openDatabase(settings, { beforeMigration })
    try {
      return await work(database)
    } finally {
      await close()
    }
  } finally {
    lock?.release()
  }
}

function inWords(count: number): string {
  return count.toLocaleString('en')
}
