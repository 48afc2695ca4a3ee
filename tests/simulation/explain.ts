import type { SimulatedDatabase } from './database.ts'
import { type Run, simulate } from './simulate.ts'

/** Explains a failure: the command that repeats it, the fewest first faults that still fail, and what happened. */
export async function explain(database: SimulatedDatabase, failed: Run): Promise<string> {
  let run = failed
  for (let count = 0; count < failed.faults.length; count++) {
    const shorter = await simulate(database, failed.seed, failed.faults.slice(0, count))
    if (shorter.broken.length === 0) continue
    run = shorter
    break
  }
  const about = run.broken[0]?.about
  const number = about?.match(/^deal (\d+)$/)?.[1]
  const isAbout = number
    ? new RegExp(`deals? (\\d+,)*${number}\\b|of (\\d+,)*${number}\\b`)
    : new RegExp(about ?? '^$')
  const history = run.log.filter(
    (line) => isAbout.test(line) || / (fault|user|provider): /.test(line),
  )
  return [
    `Seed ${failed.seed} fails: npm run simulate -- --seed ${failed.seed}`,
    ...run.broken.slice(0, 5).map(({ rule }) => `  ${rule}`),
    `  faults: ${JSON.stringify(run.faults)}`,
    ...history.slice(0, 60).map((line) => `    ${line}`),
  ].join('\n')
}
