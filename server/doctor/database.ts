import { existsSync } from 'node:fs'
import { access, constants, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import pg from 'pg'
import * as v from 'valibot'
import { FolderInUse, lockFolder } from '../database/lock.ts'
import { openFolder } from '../database/pglite-folder.ts'
import { createVault, keyFromFolder, type Vault } from '../people/vault.ts'
import { operatorToken } from '../relay/show/operator.ts'
import { databaseUrlError, dataDirError } from '../setting-error.ts'
import type { Addresses, Settings } from '../settings.ts'
import { ask, type Finding, fieldsOf, right, warning, wrong } from './ask.ts'
import { checkConnections } from './connections.ts'
import { readStored, type Stored, stored } from './stored.ts'

/** Checks the database, the encryption key and the connections. Changes nothing. */
export async function checkStored(settings: Settings, addresses: Addresses): Promise<Finding[]> {
  try {
    return await examine(settings, addresses)
  } catch (error) {
    return [wrong(error instanceof Error ? error.message : 'The database cannot be read.')]
  }
}

async function examine(settings: Settings, addresses: Addresses): Promise<Finding[]> {
  const keys = await keysOf(settings)
  const state = await readState(settings, keys)
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
  findings.push(judgeKeys(state, vault), ...(await checkConnections(addresses, vault, state)))
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

/** Undefined if the server has not created its key yet. */
async function keysOf(settings: Settings): Promise<Buffer[] | undefined> {
  if (settings.encryptionKeys !== undefined) return settings.encryptionKeys
  // keyFromFolder would create it.
  if (!existsSync(join(settings.dataDir, 'encryption.key'))) return undefined
  const key = keyFromFolder(settings.dataDir)
  return [
    await key.catch((error: unknown) => {
      throw dataDirError(settings, error)
    }),
  ]
}

async function readState(
  settings: Settings,
  keys: readonly Buffer[] | undefined,
): Promise<Stored | Finding> {
  const { databaseUrl, dataDir } = settings
  if (databaseUrl !== undefined) return await readPostgres(databaseUrl)
  const folder = join(dataDir, 'pglite')
  if (!existsSync(folder)) return await judgeMissingFolder(settings)
  let lock: ReturnType<typeof lockFolder>
  try {
    lock = lockFolder(dataDir)
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw dataDirError(settings, error)
    return await askServer(settings, keys)
  }
  try {
    // Not `openPglite`, which migrates.
    const client = await openFolder(folder)
    try {
      return await readStored(async (statement) => (await client.query(statement)).rows)
    } finally {
      await client.close()
    }
  } catch (error) {
    throw dataDirError(settings, error)
  } finally {
    lock.release()
  }
}

async function readPostgres(databaseUrl: string): Promise<Stored> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 })
  // A failed query already reports the error. Without a listener, the error would end this process.
  client.on('error', () => {})
  try {
    await client.connect()
    return await readStored(async (statement) => (await client.query(statement)).rows)
  } catch (error) {
    throw databaseUrlError(databaseUrl, error)
  } finally {
    await client.end()
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

/** A running server holds the folder, so it must read its database for us. */
async function askServer(
  { dataDir, port, localOriginAt }: Settings,
  keys: readonly Buffer[] | undefined,
): Promise<Stored | Finding> {
  const origin = localOriginAt(port)
  const reply = await ask(`${origin}/relay/doctor`, {
    headers: { Authorization: `Bearer ${keys === undefined ? '' : operatorToken(keys)}` },
  })
  const held = `A server uses the folder ${dataDir} of DATA_DIR`
  const remedy = 'Set PORT and HOST as for that server.'
  if (reply.kind === 'none') {
    return wrong(`${held}, but none answers at ${origin}: ${reply.why}. ${remedy}`)
  }
  if (reply.status === 401) {
    return wrong(
      `The server at ${origin} has another encryption key. Set ENCRYPTION_KEY and DATA_DIR as for that server, or restart it.`,
    )
  }
  const state = v.safeParse(stored, fieldsOf(reply.text))
  if (state.success) return state.output
  return wrong(
    reply.status === 500
      ? `The server at ${origin} cannot read its database. Read its log, then restart it.`
      : `${held}, but another program answers at ${origin}. ${remedy}`,
  )
}
