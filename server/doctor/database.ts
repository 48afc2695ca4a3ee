import { existsSync } from 'node:fs'
import { access, constants, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import pg from 'pg'
import { askServer, storedKeys, withDataFolder } from '../cli/running-server.ts'
import { openFolder } from '../database/pglite-folder.ts'
import { readStored, type Stored, stored } from '../database/stored.ts'
import { createVault, type Vault } from '../people/vault.ts'
import { databaseUrlError, dataDirError } from '../settings/open-errors.ts'
import type { Addresses, Settings } from '../settings/settings.ts'
import { type Finding, right, warning, wrong } from './finding.ts'
import { checkScopes } from './scopes.ts'

/** Checks the database, the encryption key and the connections. Changes nothing. */
export async function checkStored(settings: Settings, addresses: Addresses): Promise<Finding[]> {
  try {
    return await examine(settings, addresses)
  } catch (error) {
    return [wrong(error instanceof Error ? error.message : 'The database cannot be read.')]
  }
}

async function examine(settings: Settings, addresses: Addresses): Promise<Finding[]> {
  const keys = await storedKeys(settings)
  const state = await readState(settings)
  if ('kind' in state) return [state]
  const findings = [judgeWriting(state)]
  if (!state.hasTables) return findings
  if (keys === undefined) {
    const path = join(settings.dataDir, 'encryption.key')
    findings.push(
      state.keys.length === 0
        ? right(`There is no encryption key yet. The server creates ${path} when it starts.`)
        : wrong(
            `ENCRYPTION_KEY is not set, and ${path} does not exist. Restore the key that encrypted the connections.`,
          ),
    )
    return findings
  }
  const vault = createVault(keys)
  findings.push(judgeKeys(state, vault), ...(await checkScopes(addresses, vault, state)))
  return findings
}

function judgeWriting({ writeError, hasTables }: Stored): Finding {
  if (writeError !== null) {
    return wrong(
      `The database cannot be written (PostgreSQL's code ${writeError}). Give its user the right to write, and check that the database is no read-only copy and that its disk is not full.`,
    )
  }
  return right(
    hasTables
      ? 'The database can be written.'
      : 'The database can be written. It is empty: the server creates its tables when it starts.',
  )
}

function judgeKeys({ keys }: Stored, vault: Vault): Finding {
  const foreign = keys.filter(({ sealed }) => !vault.holdsKeyOf(sealed))
  if (foreign.length === 0) return right('The encryption key fits the database.')
  const locked = foreign.reduce((sum, { connections }) => sum + connections, 0)
  const why =
    locked === 0
      ? 'the database was begun with another one'
      : `it does not open ${locked} stored connections`
  return wrong(
    `The encryption key does not fit the database: ${why}. Set ENCRYPTION_KEY to the earlier key, or to the new key, a comma and the earlier one.`,
  )
}

async function readState(settings: Settings): Promise<Stored | Finding> {
  const { databaseUrl, dataDir } = settings
  if (databaseUrl !== undefined) return await readPostgres(databaseUrl)
  const folder = join(dataDir, 'pglite')
  if (!existsSync(folder)) return await judgeMissingFolder(settings)
  return await withDataFolder(
    settings,
    () =>
      readPglite(folder).catch((error: unknown) => {
        throw dataDirError(settings, error)
      }),
    () => askServer(settings, '/relay/doctor', stored),
  )
}

async function readPglite(folder: string): Promise<Stored> {
  // Not `openPglite`, which migrates.
  const client = await openFolder(folder)
  try {
    return await readStored(async (statement) => (await client.query(statement)).rows)
  } finally {
    await client.close()
  }
}

async function readPostgres(databaseUrl: string): Promise<Stored> {
  let client: pg.Client | undefined
  try {
    const opened = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 })
    client = opened
    // A failed query already reports the error. Without a listener, the error would end this process.
    opened.on('error', () => {})
    await opened.connect()
    return await readStored(async (statement) => (await opened.query(statement)).rows)
  } catch (error) {
    throw databaseUrlError(databaseUrl, error)
  } finally {
    await client?.end()
  }
}

async function judgeMissingFolder(settings: Settings): Promise<Finding> {
  let existing = resolve(settings.dataDir)
  while (!existsSync(existing)) existing = dirname(existing)
  if (!(await stat(existing)).isDirectory()) throw dataDirError(settings, { code: 'ENOTDIR' })
  try {
    await access(existing, constants.W_OK | constants.X_OK)
  } catch (error) {
    throw dataDirError(settings, error)
  }
  return warning(
    `DATA_DIR is ${settings.dataDir}, where no server has stored anything yet. Start the server, or correct DATA_DIR.`,
  )
}
