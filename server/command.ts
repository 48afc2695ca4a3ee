import { existsSync } from 'node:fs'
import { join } from 'node:path'
import ky, { isHTTPError, type ResponsePromise } from 'ky'
import * as v from 'valibot'
import { FolderInUse, lockFolder } from './database/lock.ts'
import { type OpenDatabase, openPglite, openPostgres } from './database/open.ts'
import { keyFromFolder } from './people/vault.ts'
import {
  countDeliveries,
  operatorToken,
  type RelayStatus,
  relayStatus,
  replayAnswer,
  replayDead,
} from './relay/show/operator.ts'
import { databaseUrlError, dataDirError } from './setting-error.ts'
import { parseEnv, type Settings } from './settings.ts'

/** `npm run relay -- status|replay`: shows what became of the deliveries, or sends dead ones again. */
const usage = `Usage: npm run relay -- status   counts of deliveries, why the dead ones are dead, and how many webhooks were refused
       npm run relay -- replay   sends the dead ones of the last three days again`

interface Operator {
  status(): Promise<RelayStatus>
  replay(): Promise<number>
  close(): Promise<void>
}

try {
  if (existsSync('.env')) process.loadEnvFile()
  const command = process.argv[2]
  if (command !== 'status' && command !== 'replay') throw new Error(usage)
  const operator = await openOperator(parseEnv(process.env))
  try {
    if (command === 'replay')
      console.log(`${await operator.replay()} dead deliveries are sent again`)
    else print(await operator.status())
  } finally {
    await operator.close()
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}

function print({ pending, sent, ignored, dead, reasons, refusedWebhooks }: RelayStatus): void {
  console.log(`pending  ${pending}\nsent     ${sent}\nignored  ${ignored}\ndead     ${dead}`)
  for (const [reason, count] of Object.entries(reasons)) console.log(`  ${count} × ${reason}`)
  if (refusedWebhooks === undefined) {
    console.log('refused webhooks: unknown, because no server answers on this machine')
    return
  }
  const { signature, time, missing, since } = refusedWebhooks
  console.log(`refused webhooks since ${since}  ${signature + time + missing}`)
  const reasonsInWords = [
    [signature, 'not signed with a client secret of ours, or for another address than API_URL'],
    [time, 'signed more than five minutes before or after the time of this server'],
    [missing, 'without a signature'],
  ] as const
  for (const [count, reason] of reasonsInWords) {
    if (count > 0) console.log(`  ${count} × ${reason}`)
  }
}

async function openOperator(settings: Settings): Promise<Operator> {
  const { databaseUrl, dataDir } = settings
  if (databaseUrl !== undefined) {
    const opening = openPostgres(databaseUrl, () => undefined)
    const operator = operatorOf(
      await opening.catch((error: unknown) => {
        throw databaseUrlError(databaseUrl, error)
      }),
    )
    return {
      ...operator,
      status: async () => ({
        ...(await operator.status()),
        refusedWebhooks: await refusedByServer(settings),
      }),
    }
  }
  const folder = join(dataDir, 'pglite')
  // Opening a folder creates it, and the answer about an empty database would mislead.
  if (!existsSync(folder)) {
    throw new Error(
      `DATA_DIR is ${dataDir}, but no server has stored anything there. Set DATA_DIR to the folder of the server, or start the server first (npm start).`,
    )
  }
  let lock: ReturnType<typeof lockFolder>
  try {
    lock = lockFolder(dataDir)
  } catch (error) {
    if (!(error instanceof FolderInUse)) throw dataDirError(settings, error)
    // A running server holds the folder. Ask it instead.
    return await operatorOfServer(settings)
  }
  const operator = operatorOf(
    await openPglite(folder).catch((error: unknown) => {
      lock.release()
      throw dataDirError(settings, error)
    }),
  )
  return {
    ...operator,
    async close() {
      await operator.close()
      lock.release()
    },
  }
}

function operatorOf({ database, close }: OpenDatabase): Operator {
  return {
    status: () => countDeliveries(database),
    replay: () => replayDead(database),
    close,
  }
}

/** A client of the server on this machine. */
async function clientOfServer({ encryptionKeys, dataDir, port, localOriginAt }: Settings) {
  const keys = encryptionKeys ?? [await keyFromFolder(dataDir)]
  return ky.create({
    prefix: `${localOriginAt(port)}/relay`,
    headers: { Authorization: `Bearer ${operatorToken(keys)}` },
    retry: 0,
  })
}

/** Each server counts in its memory. @returns undefined if no server answers on this machine. */
async function refusedByServer(settings: Settings): Promise<RelayStatus['refusedWebhooks']> {
  // Do not create a key: no server has one then.
  const hasKey =
    settings.encryptionKeys !== undefined || existsSync(join(settings.dataDir, 'encryption.key'))
  if (!hasKey) return undefined
  try {
    const server = await clientOfServer(settings)
    const answer = await server.get('status', { timeout: 3_000 }).json()
    return v.parse(relayStatus, answer).refusedWebhooks
  } catch {
    return undefined
  }
}

async function operatorOfServer(settings: Settings): Promise<Operator> {
  const { dataDir } = settings
  const origin = settings.localOriginAt(settings.port)
  const server = await clientOfServer(settings)

  async function answerOf<Schema extends v.GenericSchema>(
    schema: Schema,
    request: ResponsePromise,
  ) {
    try {
      return v.parse(schema, await request.json())
    } catch (cause) {
      const remedy = 'Set PORT and HOST as for that server, or stop it.'
      const held = `A server uses the folder ${dataDir} of DATA_DIR`
      if (isHTTPError(cause) && cause.response.status === 401) {
        throw new Error(
          `The server at ${origin} has another encryption key. Set ENCRYPTION_KEY and DATA_DIR as for that server.`,
          { cause },
        )
      }
      // A program answered, but not with the answer of a Dealbell server.
      if (isHTTPError(cause) || v.isValiError(cause) || cause instanceof SyntaxError) {
        throw new Error(`${held}, but another program answers at ${origin}. ${remedy}`, { cause })
      }
      throw new Error(`${held}, but none answers at ${origin}. ${remedy}`, { cause })
    }
  }

  return {
    status: () => answerOf(relayStatus, server.get('status')),
    // Many deliveries take longer than ky's ten seconds.
    replay: async () =>
      (await answerOf(replayAnswer, server.post('replay', { timeout: false }))).replayed,
    close: async () => undefined,
  }
}
