import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import * as v from 'valibot'
import {
  accountAnswer,
  changeAnswer,
  type DeliveryCounts,
  deliveryCounts,
  replayAnswer,
  statusAnswer,
} from '../activity/operator-answers.ts'
import { loadEnvironment } from '../settings/environment.ts'
import { endWithReader, shownError } from '../settings/open-errors.ts'
import { parseEnv, type Settings } from '../settings/settings.ts'
import { expandHome } from '../settings/text-file.ts'
import { ask } from './ask.ts'
import { writeNewFile } from './new-file.ts'
import { askServer } from './running-server.ts'

const usage = `Usage: npm run relay -- status   what waits, and how many connections are broken
       npm run relay -- count    counts all stored deliveries by state, and the dead ones by reason
       npm run relay -- replay   sends the dead ones of the last three days again
       npm run relay -- health   ends with 0 if the server on this machine works, and else with 1
       npm run relay -- account ID            the connections, the backlog and the failures of an account of the CRM
       npm run relay -- account ID --pause    lets its messages wait; --resume sends them
       npm run relay -- account ID --replay   sends its dead deliveries of the last three days again
       npm run relay -- account ID --export FILE   writes all that belongs to it to a new file, as JSON
       npm run relay -- account ID --delete   deletes all that belongs to it; --yes does not ask
ID is the id at the CRM. If two CRMs have an account with one id, the name of the CRM stands before it, as in CRM:ID.`
const commands = ['status', 'count', 'replay', 'health', 'account']
// Many deliveries take long. A server answers within this time or not at all (http/server.ts).
const options = { timeoutS: 60 }

endWithReader()
try {
  loadEnvironment()
  const { command, id, steps, yes, file } = readArguments()
  const settings = parseEnv(process.env)
  if (command === 'health') await requireHealth(settings)
  else if (command === 'status') {
    const figures = await askServer(settings, '/relay/status', statusAnswer, options)
    console.log(harmless(JSON.stringify(figures, null, 2)))
  } else if (command === 'account') {
    await withAccount(settings, id, steps[0], yes, file)
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

function readArguments() {
  const isFlag = { type: 'boolean' } as const
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: {
        ...{ pause: isFlag, resume: isFlag, replay: isFlag, delete: isFlag, yes: isFlag },
        export: { type: 'string' },
      },
    })
    const [command = '', id = '', ...more] = positionals
    const { yes = false, ...others } = values
    const steps = Object.keys(others)
    const isComplete =
      command === 'account'
        ? id !== '' && values.export !== '' && steps.length <= 1 && (!yes || steps[0] === 'delete')
        : id === '' && Object.keys(values).length === 0
    if (commands.includes(command) && isComplete && more.length === 0) {
      return { command, id, steps, yes, file: values.export }
    }
  } catch {
    // An unknown flag.
  }
  throw new Error(usage)
}

async function withAccount(
  settings: Settings,
  id: string,
  step: string | undefined,
  yes: boolean,
  file = '',
): Promise<void> {
  const pathOf = (name: string) => `/relay/account/${encodeURIComponent(name)}` as const
  const account = await askServer(settings, pathOf(id), accountAnswer, options)
  const [name, ...others] = account.accounts
  if (name === undefined) throw new Error(`Nobody has connected an account ${id} of the CRM.`)
  if (others.length > 0) {
    const names = account.accounts.join(' or ')
    throw new Error(`${id} is an account of each of several CRMs. Say ${names}.`)
  }
  const path = pathOf(name)
  if (step === undefined) return console.log(harmless(JSON.stringify(account, null, 2)))
  if (step === 'export') {
    const to = expandHome(file)
    await writeNewFile(to, async (append) => {
      const write = (text: string) => append(harmless(text))
      // It takes as long as it takes.
      const day = { timeoutS: 86_400, write }
      await askServer(settings, `${path}/export`, v.strictObject({}), day)
    })
    console.log(`${to} has all that belongs to it, and names of deals in plain text.`)
    return
  }
  if (step === 'delete' && !yes) await confirm(id)
  const post = { ...options, method: 'POST' } as const
  const take = () => askServer(settings, `${path}/${step}`, changeAnswer, post)
  let answer = await take()
  while (!answer.done) answer = await take()
  const said = {
    pause: 'Its messages wait. --resume sends them.',
    resume: 'Its messages are sent.',
    replay: `${answer.replayed} dead deliveries are sent again`,
    delete: 'All that belonged to it is deleted.',
  }
  console.log(said[step as keyof typeof said])
}

/** JSON that a terminal shows as it is. JSON escapes only some of what controls one, or turns the direction of a text. */
function harmless(json: string): string {
  const escaped = (found: string) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`
  return json.replace(/[\x7F-\x9F\p{Bidi_Control}]/gu, escaped)
}

/** @throws Error if the person at the terminal does not type the id. */
async function confirm(id: string): Promise<void> {
  process.stderr.write(
    `This deletes the users of the account with all that is stored of them. Type ${id} to go on: `,
  )
  const lines = createInterface({ input: process.stdin })
  const { value: typed = '' } = await lines[Symbol.asyncIterator]().next()
  lines.close()
  if (typed.trim() !== id) throw new Error('Nothing was deleted.')
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
