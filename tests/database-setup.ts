import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { openPglite } from '../server/database/open.ts'
import { startPostgres } from './relay/postgres.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** `template` is a data folder with an empty database; `copies` holds what tests make of it. */
    dataFolders: { template: string; copies: string }
    /** A PostgreSQL on which tests may create databases; undefined unless TEST_ALL is 1. */
    postgresUrl: string | undefined
  }
}

/** Prepares the databases for all tests of server and relay. */
export default async function setup(project: TestProject) {
  const given = process.env.TEST_DATABASE_URL
  const postgres = process.env.TEST_ALL === '1' && !given ? await startPostgres() : undefined
  project.provide('postgresUrl', given ?? postgres?.url)

  const folder = await mkdtemp(join(tmpdir(), 'dealbell-tests-'))
  const dataFolders = { template: join(folder, 'template'), copies: join(folder, 'copies') }
  await mkdir(dataFolders.copies)
  const { close } = await openPglite(join(dataFolders.template, 'pglite'), { synced: false })
  await close()
  project.provide('dataFolders', dataFolders)

  return async () => {
    await postgres?.stop()
    await rm(folder, { recursive: true, force: true })
  }
}
