import { existsSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import { operatorToken } from '../activity/operator-answers.ts'
import { keyFromFolder } from '../people/vault.ts'
import { dataDirError } from '../settings/open-errors.ts'
import type { Settings } from '../settings/settings.ts'
import { ask, fieldsOf } from './ask.ts'

/** @throws Error if no server has used the data folder. Opening the folder would create it. */
export function requireStored({ dataDir }: Settings): void {
  if (existsSync(join(dataDir, 'pglite'))) return
  throw new Error(
    `DATA_DIR is ${dataDir}, but no server has stored anything there. Set DATA_DIR to the folder of the server, or start the server first (npm start).`,
  )
}

/** The encryption keys, the newest first. Undefined if the server has not created its key yet. */
export async function storedKeys(settings: Settings): Promise<Buffer[] | undefined> {
  const { encryptionKeys, dataDir } = settings
  if (encryptionKeys !== undefined) return encryptionKeys
  // keyFromFolder would create it.
  if (!existsSync(join(dataDir, 'encryption.key'))) return undefined
  return [
    await keyFromFolder(dataDir).catch((error: unknown) => {
      throw dataDirError(settings, error)
    }),
  ]
}

const remedy = 'Set PORT and HOST as for that server, or start it.'

/**
 * Asks the server on this machine.
 * @throws Error that says what to do if it gives no such answer.
 */
export async function askServer<Answer>(
  settings: Settings,
  path: '/relay/status' | '/relay/count' | '/relay/replay' | `/relay/account/${string}`,
  shape: v.GenericSchema<unknown, Answer>,
  options: { method?: 'POST'; timeoutS?: number; write?: (text: string) => Promise<void> } = {},
): Promise<Answer> {
  const origin = settings.localOriginAt(settings.port)
  const keys = await storedKeys(settings)
  const token = keys === undefined ? '' : operatorToken(keys)
  const headers = { Authorization: `Bearer ${token}` }
  const reply = await ask(origin + path, { ...options, headers })
  if (reply.kind === 'none') {
    throw new Error(
      `This command asks the server on this machine, but none answers at ${origin}: ${reply.why}. ${remedy}`,
    )
  }
  const answer = v.safeParse(shape, fieldsOf(reply.text))
  if (answer.success) return answer.output
  switch (reply.status) {
    case 401:
      throw new Error(
        `The server at ${origin} has another encryption key. Set ENCRYPTION_KEY and DATA_DIR as for that server, or restart it.`,
      )
    case 500:
      throw new Error(
        `The server at ${origin} cannot read its database. Its log says why. It needs no restart.`,
      )
    default:
      throw new Error(
        `This command asks the server on this machine, but another program answers at ${origin}. ${remedy}`,
      )
  }
}
