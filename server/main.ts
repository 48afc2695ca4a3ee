import { existsSync } from 'node:fs'
import { lockFolder } from './database/lock.ts'
import { parseEnv } from './settings.ts'

try {
  // Settings of the environment win over those of the file.
  if (existsSync('.env')) process.loadEnvFile()
  const settings = parseEnv(process.env)
  // Before anything else, so that a second start says this and not that the port is taken.
  // PostgreSQL takes care of itself.
  const lock = settings.databaseUrl === undefined ? lockFolder(settings.dataDir) : undefined
  // Loaded only now: what cannot start says so at once.
  const { start } = await import('./start.ts')
  await start(settings, lock)
} catch (error) {
  // A sentence is enough for what the person can mend; the stack is for what we must.
  console.error(error instanceof Error ? error.message : error)
  if (process.env.DEBUG && error instanceof Error) console.error(error.stack)
  process.exit(1)
}
