import './database/drizzle-imports.ts'
import { inspect } from 'node:util'
import { writeLines } from './log.ts'
import { loadEnvironment } from './settings/environment.ts'
import { lockDataDir, shownError } from './settings/open-errors.ts'
import { parseEnv } from './settings/settings.ts'

try {
  loadEnvironment()
  const settings = parseEnv(process.env)
  // First of all, so that a second start reports the folder and not the port. PostgreSQL needs no lock.
  const folderLock = settings.databaseUrl === undefined ? lockDataDir(settings) : undefined
  // Import this late, so that wrong settings are reported at once.
  const { start } = await import('./start.ts')
  await start(settings, folderLock)
} catch (error) {
  // A person who can fix a setting needs only the message. With DEBUG, the place in the code is shown too.
  writeLines('error', process.env.DEBUG ? inspect(error) : shownError(error))
  process.exit(1)
}
