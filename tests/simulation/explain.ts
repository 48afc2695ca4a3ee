import type { SimulatedDatabase } from './database.ts'
import { promises, type Run, simulate } from './simulate.ts'

/** Explains a failure: the command that repeats it, the fewest first faults that still fail, and what happened. */
export async function explain(database: SimulatedDatabase, failed: Run): Promise<string> {
  let run = failed
  for (let count = 0; count <= failed.faults.length; count++) {
    const shorter = await simulate(database, failed.seed, {
      crm: failed.crm,
      faults: failed.faults.slice(0, count),
    })
    if (shorter.broken.length === 0) continue
    run = shorter
    break
  }
  const [rule = ''] = run.broken
  const about = linesAbout(database, rule)
  const history = run.log.filter(
    (line) => about.test(line) || / (fault|user|provider): /.test(line),
  )
  // A process repeats what fails, and says so each time.
  const textOf = (line = '') => line.slice(line.indexOf(' '))
  const news = history.filter((line, at) => textOf(line) !== textOf(history[at - 1]))
  return [
    `Seed ${failed.seed} fails: npm run simulate -- --seed ${failed.seed} --crm ${failed.crm}`,
    ...promises.filter((each) =>
      run.broken.some((one) => one.startsWith(each.slice(0, each.indexOf(')') + 1))),
    ),
    ...run.broken.slice(0, 5).map((each) => `  ${each}`),
    `  faults: ${JSON.stringify(run.faults)}`,
    ...news.slice(-100).map((line) => `    ${line.slice(0, 200)}`),
  ].join('\n')
}

/** Finds the lines about the deals that a rule names, or about its channel. Looks into the database after the run. */
function linesAbout(database: SimulatedDatabase, rule: string): RegExp {
  const deals = Array.from(rule.matchAll(/deal (\d+)/g), ([, deal]) => deal)
  if (deals.length === 0) return new RegExp(/[\w.:-]+\/[\w-]+/.exec(rule)?.[0] ?? '^$')
  const events = database.ask<{ id: number }>(
    'select id::int from deal_events where deal_id = any($1::text[])',
    [`{${deals.join()}}`],
  )
  // A process names the event: "dealEvent":5
  const ids = events.map(({ id }) => id).join('|') || 'none'
  return new RegExp(`\\b(deal|of) (\\d[\\w:]*,)*(${deals.join('|')})\\b|"dealEvent":(${ids})\\b`)
}
