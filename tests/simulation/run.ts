import { parseArgs } from 'node:util'
import { crmIds } from '../../server/providers/registry.ts'
import { printTable } from './breaks.ts'
import { playCrowd, type Scene, scenes } from './crowd.ts'
import { SimulatedDatabase } from './database.ts'
import { explain } from './explain.ts'
import { simulate } from './simulate.ts'

// npm run simulate -- --seeds 5000 --first 1 [--crm pipedrive] | --seed 17 | --crowd | --breaks

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    first: { type: 'string', default: '1' },
    /** Plays one seed and prints everything that happens. */
    seed: { type: 'string' },
    /** Plays the scenes of a crowd, and prints what it costs the others beside few and beside many. */
    crowd: { type: 'boolean' },
    /** Undoes one fix after the other, and says which seed finds it (breaks.ts). */
    breaks: { type: 'boolean' },
    /** The CRM of all users. By default, each seed draws it. */
    crm: { type: 'string' },
    /** The beginning of the names of some breaks or scenes. */
    only: { type: 'string', default: '' },
  },
})

const crm = crmIds.find((id) => id === values.crm)
if (values.crm !== undefined && crm === undefined) throw new Error(`'${values.crm}' is no CRM.`)
const database = await SimulatedDatabase.open()
if (values.breaks) {
  await printTable(database, { seeds: whole(values.seeds ?? '2000'), only: values.only })
} else if (values.crowd) await playScenes()
else if (values.seed === undefined) await playMany()
else {
  const run = await simulate(database, whole(values.seed), { crm })
  console.log(run.log.join('\n'))
  console.log(run.broken.join('\n') || 'Nothing is broken.')
  if (run.broken.length > 0) process.exitCode = 1
}
await database.close()

function whole(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`'${text}' is not a number.`)
  return Number(text)
}

async function playMany(): Promise<void> {
  // The time of the processor: other programs may be busy, too.
  const begun = process.cpuUsage()
  const seconds = () => {
    const { user, system } = process.cpuUsage(begun)
    return (user + system) / 1e6
  }
  const first = whole(values.first)
  const count = whole(values.seeds ?? '200')
  let failures = 0
  let statements = 0
  for (let seed = first; seed < first + count; seed++) {
    const run = await simulate(database, seed, { crm })
    statements += run.statements
    if ((seed - first) % 50 === 49) console.log(`${seed - first + 1} of ${count} seeds`)
    if (run.broken.length === 0) continue
    failures++
    console.log(await explain(database, run))
  }
  const each = (seconds() / count).toFixed(3)
  const average = Math.round(statements / count)
  console.log(`${failures} of ${count} seeds fail, ${each} s and ${average} statements each`)
  if (failures > 0) process.exitCode = 1
}

async function playScenes(): Promise<void> {
  // The type of Object.keys does not keep the names of the keys.
  for (const scene of (Object.keys(scenes) as Scene[]).filter((name) =>
    name.startsWith(values.only),
  )) {
    const { broken, figures } = await playCrowd(database, scene, { isLarge: true })
    console.log(scene)
    console.table(figures)
    if (broken.length === 0) continue
    console.log(broken.join('\n'))
    process.exitCode = 1
  }
}
