import { existsSync } from 'node:fs'
import type { Database } from '../database/open.ts'
import {
  countDeliveries,
  type RelayStatus,
  relayStatus,
  replayAnswer,
  replayDead,
} from '../relay/show/operator.ts'
import { openDatabase } from '../settings/open-database.ts'
import { parseEnv, type Settings } from '../settings/settings.ts'
import { askServer, requireStored, withDataFolder } from './running-server.ts'

/** `npm run relay -- status|replay`: shows what became of the deliveries, or sends dead ones again. */
const usage = `Usage: npm run relay -- status   counts of deliveries, why the dead ones are dead, and how many webhooks were refused
       npm run relay -- replay   sends the dead ones of the last three days again`

try {
  if (existsSync('.env')) process.loadEnvFile()
  const command = process.argv[2]
  if (command !== 'status' && command !== 'replay') throw new Error(usage)
  const settings = parseEnv(process.env)
  if (command === 'status') print(await statusOf(settings))
  else console.log(`${await replay(settings)} dead deliveries are sent again`)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}

async function statusOf(settings: Settings): Promise<RelayStatus> {
  const ofServer = () => askServer(settings, '/relay/status', relayStatus)
  const status = await inDatabase<RelayStatus>(settings, countDeliveries, ofServer)
  if (settings.databaseUrl === undefined) return status
  // Each server counts webhooks in its memory.
  const { refusedWebhooks } = (await ofServer().catch(() => undefined)) ?? {}
  return { ...status, refusedWebhooks }
}

/** @returns how many deliveries are sent again. */
async function replay(settings: Settings): Promise<number> {
  // Many deliveries take long. A server answers within this time or not at all (http/socket-limits.ts).
  const options = { method: 'POST', timeoutS: 60 } as const
  return await inDatabase(
    settings,
    replayDead,
    async () => (await askServer(settings, '/relay/replay', replayAnswer, options)).replayed,
  )
}

/** Runs `work` on the database, or `askServer` if a server holds its folder. */
async function inDatabase<Result>(
  settings: Settings,
  work: (database: Database) => Promise<Result>,
  askServer: () => Promise<Result>,
): Promise<Result> {
  async function openAndWork(): Promise<Result> {
    const { database, close } = await openDatabase(settings)
    try {
      return await work(database)
    } finally {
      await close()
    }
  }
  if (settings.databaseUrl !== undefined) return await openAndWork()
  // The answer about an empty database would mislead.
  requireStored(settings)
  return await withDataFolder(settings, openAndWork, askServer)
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
