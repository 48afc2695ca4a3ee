import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Dealbell } from './server.ts'

/**
 * Runs once before all tests: starts a server, which builds the page if it has changed, and creates an
 * empty database. The first start of a database takes seconds, so each server of a test starts with a
 * copy of this one.
 */
export default async function prepare(): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'dealbell-empty-'))
  const server = new Dealbell(dataDir)
  await server.start()
  await server.stop()
  process.env.EMPTY_DATA_DIR = dataDir
  return () => rm(dataDir, { recursive: true, force: true })
}
