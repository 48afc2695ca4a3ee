import { parseArgs } from 'node:util'
import { SimulatedDatabase } from './database.ts'
import { type Fault, simulate } from './simulate.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '200' },
    seed: { type: 'string' },
    first: { type: 'string', default: '1' },
  },
})
const database = await SimulatedDatabase.open()
const begun = process.hrtime.bigint()
if (values.seed !== undefined) {
  const run = await simulate(database, Number(values.seed))
  console.log(run.log.join('\n'))
  console.log(run.broken.join('\n') || 'Nothing is broken.')
} else {
  let failures = 0
  const first = Number(values.first)
  for (let seed = first; seed < first + Number(values.seeds); seed++) {
    const run = await simulate(database, seed)
    if (run.broken.length === 0) continue
    failures++
    let faults: Fault[] = run.faults
    for (let count = 0; count < faults.length; count++) {
      const fewer = await simulate(database, seed, faults.slice(0, count))
      if (fewer.broken.length > 0) faults = faults.slice(0, count)
    }
    console.log(
      `seed ${seed}: ${run.broken.slice(0, 3).join('; ')} | faults: ${faults.map(({ kind }) => kind).join(', ')}`,
    )
  }
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9
  console.log(`${failures} of ${values.seeds} seeds fail, ${seconds.toFixed(1)} s`)
}
await database.close()
process.exit(0)
