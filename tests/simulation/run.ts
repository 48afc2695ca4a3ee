import { parseArgs } from 'node:util'
import { printTable } from './breaks.ts'
import { SimulatedDatabase } from './database.ts'
import { explain } from './explain.ts'
import { planOf } from './plan.ts'
import { simulate } from './simulate.ts'

// npm run simulate -- --seeds 5000 --first 1 | --seed 17 | --breaks

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    first: { type: 'string', default: '1' },
    /** Plays one seed and prints everything that happens. */
    seed: { type: 'string' },
    'until-failure': { type: 'boolean' },
    breaks: { type: 'boolean' },
    only: { type: 'string', default: '' },
    /** Leaves out the seeds of other themes (plan.ts). */
    theme: { type: 'string' },
  },
})

if (values.breaks) await printTable({ seeds: values.seeds ?? '2000', only: values.only })
else {
  const database = await SimulatedDatabase.open()
  if (values.seed === undefined) await playMany(database)
  else {
    const run = await simulate(database, Number(values.seed))
    console.log(run.log.join('\n'))
    console.log(run.broken.map(({ rule }) => rule).join('\n') || 'Nothing is broken.')
  }
  await database.close()
}

async function playMany(database: SimulatedDatabase): Promise<void> {
  // The time of the processor: other programs may be busy, too.
  const begun = process.cpuUsage()
  const seconds = () => {
    const { user, system } = process.cpuUsage(begun)
    return (user + system) / 1e6
  }
  const first = Number(values.first)
  const count = Number(values.seeds ?? 200)
  let failures = 0
  let statements = 0
  for (let seed = first; seed < first + count; seed++) {
    if (values.theme !== undefined && planOf(seed).theme !== values.theme) continue
    const run = await simulate(database, seed)
    statements += run.statements
    if (run.broken.length === 0) continue
    failures++
    if (values['until-failure']) {
      console.log(`seed ${seed} after ${seconds().toFixed(0)} s: ${run.broken[0]?.rule}`)
      return
    }
    console.log(await explain(database, run))
  }
  const each = (seconds() / count).toFixed(3)
  console.log(
    values['until-failure']
      ? `not found in ${count} seeds, ${seconds().toFixed(0)} s`
      : `${failures} of ${count} seeds fail, ${each} s and ${Math.round(statements / count)} statements each`,
  )
  if (failures > 0) process.exitCode = 1
}
