import { join } from 'node:path'
import {
  type BeforeMigration,
  type OpenDatabase,
  openPglite,
  openPostgres,
} from '../database/open.ts'
import { databaseUrlError, dataDirError } from './open-errors.ts'
import type { Settings } from './settings.ts'

/**
 * Opens and migrates the database that the settings name.
 * @throws Error that names the setting and the remedy.
 */
export async function openDatabase(
  settings: Settings,
  {
    onIdleError = () => undefined,
    warn,
    ...options
  }: {
    onIdleError?: (error: Error) => void
    onBlocked?: (error: unknown) => void
    beforeMigration?: BeforeMigration
    /** Is called with a sentence about what may end this process without a message. */
    warn?: (sentence: string) => void
  } = {},
): Promise<OpenDatabase> {
  const {
    databaseUrl,
    databasePoolSize: poolSize,
    databaseStatementMs: statementMs,
    dataDir,
  } = settings
  const opening =
    databaseUrl === undefined
      ? openPglite(join(dataDir, 'pglite'), { warn, ...options })
      : openPostgres(databaseUrl, onIdleError, { poolSize, statementMs, ...options })
  return await opening.catch((error: unknown) => {
    throw databaseUrl === undefined
      ? dataDirError(settings, error)
      : databaseUrlError(databaseUrl, error)
  })
}
