import {
  type DeliveryCounts,
  deliveryCounts,
  replayAnswer,
  statusAnswer,
} from '../activity/operator-answers.ts'
import { loadEnvironment } from '../settings/environment.ts'
import { shownError } from '../settings/open-errors.ts'
import { parseEnv, type Settings } from '../settings/settings.ts'
import { ask } from './ask.ts'
import { askServer } from './running-server.ts'

/** `npm run relay -- COMMAND`: what the operator asks the server on this machine, and has it do. */
const usage = `Usage: npm run relay -- status   what waits, and how many connections are broken
       npm run relay -- count    counts all stored deliveries by state, and the dead ones by reason
       npm run relay -- replay   sends the dead ones of the last three days again
       npm run relay -- health   ends with 0 if the server on this machine works, and else with 1`
const commands = ['status', 'count', 'replay', 'health']
// Many deliveries take long. A server answers within this time or not at all (http/server.ts).
const options = { timeoutS: 60 }

try {
  loadEnvironment()
  const [, , command] = process.argv
  if (command === undefined || !commands.includes(command)) throw new Error(usage)
  const settings = parseEnv(process.env)
  if (command === 'health') await requireHealth(settings)
  else if (command === 'status') {
    const figures = await askServer(settings, '/relay/status', statusAnswer, options)
    console.log(JSON.stringify(figures, null, 2))
  } else if (command === 'count') {
    print(await askServer(settings, '/relay/count', deliveryCounts, options))
  } else {
    const replay = { ...options, method: 'POST' } as const
    const { replayed } = await askServer(settings, '/relay/replay', replayAnswer, replay)
    console.log(`${replayed} dead deliveries are sent again`)
  }
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

function print({ pending, sent, ignored, dead, reasons }: DeliveryCounts): void {
  console.log(`pending  ${pending}\nsent     ${sent}\nignored  ${ignored}\ndead     ${dead}`)
  for (const [reason, count] of Object.entries(reasons)) console.log(`  ${count} × ${reason}`)
}
