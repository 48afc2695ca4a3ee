import { existsSync } from 'node:fs'
import { join } from 'node:path'
import ky from 'ky'
import * as v from 'valibot'
import { lockFolder } from './database/lock.ts'
import { type OpenDatabase, openPglite, openPostgres } from './database/open.ts'
import { keyFromFolder } from './people/vault.ts'
import {
  countDeliveries,
  operatorToken,
  type RelayStatus,
  relayStatus,
  replayAnswer,
  replayDead,
} from './relay/operator.ts'
import { parseEnv, type Settings } from './settings.ts'

/** `npm run relay -- status|replay`: shows what became of the deliveries, or sends the dead ones again. */
const usage = `Usage: npm run relay -- status   counts of deliveries, and why the dead ones are dead
       npm run relay -- replay   sends the dead ones again`

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

function print({ pending, sent, ignored, dead, reasons }: RelayStatus): void {
  console.log(`pending  ${pending}\nsent     ${sent}\nignored  ${ignored}\ndead     ${dead}`)
  for (const [reason, count] of Object.entries(reasons)) console.log(`  ${count} × ${reason}`)
}

async function openOperator(settings: Settings): Promise<Operator> {
  if (settings.databaseUrl !== undefined) {
    return operatorOf(await openPostgres(settings.databaseUrl, () => undefined))
  }
  let lock: ReturnType<typeof lockFolder>
  try {
    lock = lockFolder(settings.dataDir)
  } catch {
    // A running server holds the folder. Ask it instead.
    return await operatorOfServer(settings)
  }
  const operator = operatorOf(await openPglite(join(settings.dataDir, 'pglite')))
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

async function operatorOfServer({
  encryptionKeys,
  dataDir,
  port,
  localOriginAt,
}: Settings): Promise<Operator> {
  const keys = encryptionKeys ?? [await keyFromFolder(dataDir)]
  const server = ky.create({
    prefix: `${localOriginAt(port)}/relay`,
    headers: { Authorization: `Bearer ${operatorToken(keys)}` },
    retry: 0,
  })
  return {
    status: async () => v.parse(relayStatus, await server.get('status').json()),
    replay: async () => v.parse(replayAnswer, await server.post('replay').json()).replayed,
    close: async () => undefined,
  }
}
