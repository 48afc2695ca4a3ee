import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { type Outside, openOutside } from '../relay/outside.ts'
import { startPostgres } from '../relay/postgres.ts'
import { type ServerProcess, startServer } from '../relay/process.ts'
import { newDatabase, onNewDatabase, openTarget, seedUsers, type Target } from './seed.ts'

// Measures the relay on this machine. docs/performance.md explains the table.
const quick = process.argv.includes('--quick')
const kinds = process.argv.includes('--pglite')
  ? ['PGlite']
  : process.argv.includes('--postgresql')
    ? ['PostgreSQL']
    : ['PGlite', 'PostgreSQL']
const seconds = quick ? 5 : 20
const rows: Array<Record<string, string | number>> = []
/** HubSpot repeats what is not acknowledged in time. On a quiet machine the 99th percentile stays below this. */
const acknowledgementLimitMs = 500
/** With more accounts a transaction touches thousands of channels, and the limit does not hold. */
const limitedAccounts = 100

console.log(`${cpus().length} × ${cpus()[0]?.model}, Node ${process.version}`)
const postgres = await startPostgres()
for (const kind of kinds) {
  for (const accounts of [1, 100, 10_000]) {
    await onNewDatabase(kind, postgres.url, (database) => measure(kind, accounts, database))
  }
}
await postgres.stop()
console.table(rows)

async function measure(kind: string, accounts: number, database: Target): Promise<void> {
  const outside = await openOutside()
  await seed(database, accounts)
  const server = await startServer({ outside, database })
  try {
    // Slack takes one message a second for a channel. The rates stay below that.
    for (const rate of [0.5, 1, 10, 100].filter((each) => each * 2 <= accounts)) {
      if (rate < 1 && accounts > 1) continue
      const before = cpuMs(server)
      const latency = await latencies(server, outside, accounts, rate)
      const cpuPerEvent = (cpuMs(server) - before) / (rate * seconds)
      row(
        kind,
        accounts,
        `event → message at ${rate}/s`,
        latency,
        `${cpuPerEvent.toFixed(1)} ms CPU an event`,
      )
    }
    const acks = await acknowledgements(server, outside, accounts)
    if (accounts <= limitedAccounts && percentile(acks.times, 0.99) > acknowledgementLimitMs) {
      console.error(`Over the limit: acknowledgements took more than ${acknowledgementLimitMs} ms.`)
      process.exitCode = 1
    }
    row(
      kind,
      accounts,
      'acknowledging 100 events, 50 in flight, Slack hangs',
      acks.times,
      `${acks.perSecond} a second`,
    )
    await server.kill()
    if (accounts === 10_000) await drain(kind, database)
  } finally {
    await server.kill()
    await outside.close()
  }
}

async function latencies(
  server: ServerProcess,
  outside: Outside,
  accounts: number,
  rate: number,
): Promise<number[]> {
  const told = new Map<number, number>()
  const already = outside.posts.length
  const dealsBefore = countDeals(outside)()
  const started = performance.now()
  const telling: Array<Promise<unknown>> = []
  for (let n = 0; n < rate * seconds; n++) {
    await delay(Math.max(0, started + (n * 1000) / rate - performance.now()))
    const deal = dealsBefore + n + 1
    told.set(deal, performance.now())
    telling.push(server.tell([stageChange(deal, { portal: (n % accounts) + 1 })]))
  }
  await Promise.all(telling)
  const count = countDeals(outside)
  await outside.accepted(() => count() >= dealsBefore + told.size, 120_000)
  return outside.posts
    .slice(already)
    .flatMap((post) => dealsIn(post).map((deal) => post.atMs - (told.get(deal) ?? 0)))
}

/** Returns a function that counts the deals in all messages so far. */
function countDeals(outside: Outside): () => number {
  let posts = 0
  let deals = 0
  return () => {
    for (const post of outside.posts.slice(posts)) deals += dealsIn(post).length
    posts = outside.posts.length
    return deals
  }
}

async function acknowledgements(server: ServerProcess, outside: Outside, accounts: number) {
  outside.answerPost = () => 'hang'
  const times: number[] = []
  let deal = 1_000_000
  async function tellUntil(count: number): Promise<void> {
    async function keepTelling(): Promise<void> {
      while (times.length < count) {
        const batch = Array.from({ length: 100 }, () => {
          deal++
          return stageChange(deal, { portal: (deal % accounts) + 1 })
        })
        const begun = performance.now()
        if ((await server.tell(batch)) !== 204) throw new Error('A batch was not acknowledged.')
        times.push(performance.now() - begun)
      }
    }
    await Promise.all(Array.from({ length: 50 }, keepTelling))
  }
  // The first batches also compile the code and start the calls that hang.
  await tellUntil(200)
  times.length = 0
  const started = performance.now()
  await tellUntil(quick ? 300 : 1_000)
  const perSecond = Math.round(times.length / ((performance.now() - started) / 1000))
  return { times, perSecond }
}

async function drain(kind: string, seeded: Target): Promise<void> {
  const outside = await openOutside()
  const database =
    'url' in seeded
      ? { url: await newDatabase(postgres.url) }
      : { folder: `${seeded.folder}/drain` }
  await seed(database, 1_000)
  const server = await startServer({ outside, database })
  const started = performance.now()
  for (let n = 0; n < 10_000; n += 100) {
    await server.tell(
      Array.from({ length: 100 }, (_, m) => stageChange(n + m, { portal: ((n + m) % 1_000) + 1 })),
    )
  }
  const count = countDeals(outside)
  await outside.accepted(() => count() >= 10_000, 600_000)
  const took = (performance.now() - started) / 1000
  rows.push({
    database: kind,
    accounts: 1_000,
    measured: 'draining 10,000 events over 1,000 channels',
    note: `${took.toFixed(1)} s`,
  })
  await server.kill()
  await outside.close()
}

async function seed(database: Target, accounts: number): Promise<void> {
  const open = await openTarget(database)
  await seedUsers(open.database, accounts)
  await open.close()
}

function row(
  database: string,
  accounts: number,
  measured: string,
  times: number[],
  note: string,
): void {
  const at = (part: number) => `${Math.round(percentile(times, part))} ms`
  rows.push({ database, accounts, measured, p50: at(0.5), p99: at(0.99), note })
  console.log(database, accounts, measured, at(0.5), at(0.99), note)
}

/** The nearest-rank percentile: the 99th of 100 times is the second longest one. */
function percentile(times: number[], part: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * part) - 1] ?? 0
}

/** Processor time of a process so far; NaN where there is no /proc. */
function cpuMs({ pid }: { pid?: number | undefined }): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    // Clock ticks of 10 ms, in user and in system mode.
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return Number.NaN
  }
}
