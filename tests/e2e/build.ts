import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Dealbell } from './server.ts'

/**
 * Runs once before all tests: builds the page, and starts a server, which creates an empty database. The first start of a database takes seconds, so each server of a test starts with a
 * copy of this one.
 */
export default async function prepare(): Promise<() => Promise<void>> {
  const vite = join(import.meta.dirname, '../../node_modules/vite/bin/vite.js')
  const build = [vite, 'build', '--configLoader', 'native', '--logLevel', 'warn']
  execFileSync(process.execPath, build, { stdio: 'inherit' })
  const dataDir = await mkdtemp(join(tmpdir(), 'dealbell-empty-'))
  const server = new Dealbell(dataDir)
  await server.start()
  await server.stop()
  process.env.EMPTY_DATA_DIR = dataDir
  return () => rm(dataDir, { recursive: true, force: true })
}
