import type { Database } from '../database/open.ts'
import {
  type DeliveryCounts,
  deliveryCounts,
  replayAnswer,
  statusAnswer,
} from '../relay/show/operator-answers.ts'
import { loadEnvironment } from '../settings/environment.ts'
import { shownError } from '../settings/open-errors.ts'
import { parseEnv, type Settings } from '../settings/settings.ts'
import { ask } from './ask.ts'
import { askServer, requireStored, withDataFolder } from './running-server.ts'

/**
 * `npm run relay -- COMMAND`: what the operator asks the relay, and has it do. It loads what works on a database only if
 * no server answers, because that takes half a second.
 */
const usage = `Usage: npm run relay -- status   what waits, and what the server on this machine has done since its start
       npm run relay -- count    counts all stored deliveries by state, and the dead ones by reason
       npm run relay -- replay   sends the dead ones of the last three days again
       npm run relay -- health   ends with 0 if the server on this machine works, and else with 1`
const commands = ['status', 'count', 'replay', 'health']

try {
  loadEnvironment()
  const [, , command] = process.argv
  if (command === undefined || !commands.includes(command)) throw new Error(usage)
  const settings = parseEnv(process.env)
  if (command === 'health') await requireHealth(settings)
  else if (command === 'status') for (const line of await statusOf(settings)) console.log(line)
  else if (command === 'count') print(await count(settings))
  else console.log(`${await replay(settings)} dead deliveries are sent again`)
} catch (error) {
  console.error(shownError(error))
  process.exitCode = 1
}

/** For the health check of a container. @throws Error if the server does not work. */
async function requireHealth({ localOriginAt, port }: Settings): Promise<void> {
  const url = `${localOriginAt(port)}/health`
  const reply = await ask(url, { timeoutS: 4 })
  const why = reply.kind === 'none' ? reply.why : reply.status === 200 ? undefined : reply.status
  if (why !== undefined) throw new Error(`${url}: ${why}`)
}

async function statusOf(settings: Settings): Promise<string[]> {
  const ofServer = async () => (await askServer(settings, '/relay/status', statusAnswer)).lines
  async function ofDatabase(database: Database): Promise<string[]> {
    const { readStored } = await import('../watch/stored.ts')
    const { storedInWords } = await import('../watch/words.ts')
    const figures = await readStored(database, settings.addressesAt(settings.port).providers)
    return [
      'In the database:',
      ...storedInWords(figures).map((line) => `  ${line}`),
      'No server answers on this machine, so nothing else is known.',
    ]
  }
  if (settings.databaseUrl !== undefined) {
    // A server on this machine knows more than the database.
    const lines = await ofServer().catch(() => undefined)
    if (lines !== undefined) return lines
  }
  return await inDatabase(settings, ofDatabase, ofServer)
}

async function operator() {
  return await import('../relay/show/operator.ts')
}

async function count(settings: Settings): Promise<DeliveryCounts> {
  return await inDatabase(
    settings,
    async (database) => (await operator()).countDeliveries(database),
    () => askServer(settings, '/relay/count', deliveryCounts, { timeoutS: 60 }),
  )
}

/** @returns how many deliveries are sent again. */
async function replay(settings: Settings): Promise<number> {
  // Many deliveries take long. A server answers within this time or not at all (http/socket-limits.ts).
  const options = { method: 'POST', timeoutS: 60 } as const
  return await inDatabase(
    settings,
    async (database) => (await operator()).replayDead(database),
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
    const { openDatabase } = await import('../settings/open-database.ts')
    const { refuseToMigrate } = await import('../database/version.ts')
    const { database, close } = await openDatabase(settings, { beforeMigration: refuseToMigrate })
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

function print({ pending, sent, ignored, dead, reasons }: DeliveryCounts): void {
  console.log(`pending  ${pending}\nsent     ${sent}\nignored  ${ignored}\ndead     ${dead}`)
  for (const [reason, count] of Object.entries(reasons)) console.log(`  ${count} × ${reason}`)
}
