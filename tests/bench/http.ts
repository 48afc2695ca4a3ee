import { cp, mkdtemp, rm } from 'node:fs/promises'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import autocannon from 'autocannon'
import { sql } from 'drizzle-orm'
import { type Outside, openOutside } from '../relay/outside.ts'
import { startPostgres } from '../relay/postgres.ts'
import { startServer } from '../relay/process.ts'
import { launch } from '../server/program.ts'
import { cpuMs } from './cpu.ts'
import { openTarget, seedSessions, seedUsers, type Target } from './seed.ts'

// Measures the calls of the dashboard beside bare Hono with one query for each (http-rival.ts), on the same database.
// docs/performance.md has figures.

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '5' },
    database: { type: 'string' },
  },
})
const seconds = Number(options.seconds)
const rounds = Number(options.rounds)
const sessions = 10_000
const connections = 200
const deliveriesOfUser = 10
/** At least this share of bare Hono's requests a second, and at most this many times its p99. */
const goal = { throughput: 0.5, p99: 2 }

const calls = {
  status: { path: '/api/hubspot/status' },
  rules: { path: '/api/notifications/rules' },
  save: {
    path: '/api/notifications/rules',
    method: 'POST',
    body: '{"rules":["deal-stage-changed","deal-closed"]}',
  },
  activity: { path: '/api/notifications/activity?limit=25' },
} as const
type Call = (typeof calls)[keyof typeof calls]

interface Measured {
  perSecond: number
  p50: number
  p99: number
  /** Processor time of the server for one call, without PostgreSQL's. */
  cpu: number
}
interface Running {
  url: string
  pid?: number | undefined
}

console.log(`${cpus().length} × ${cpus()[0]?.model}, Node ${process.version}, load ${loads()}`)
const rows: Array<Record<string, string | number>> = []
// Clears up when it is cut short: PostgreSQL and both servers end with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
const outside = await openOutside()
for (const kind of ['PGlite', 'PostgreSQL'].filter((each) => each === (options.database ?? each))) {
  const folder = await mkdtemp(join(tmpdir(), 'dealbell-http-'))
  const postgres = kind === 'PostgreSQL' ? await startPostgres() : undefined
  try {
    await measure(kind, postgres === undefined ? { folder } : { url: postgres.url }, outside)
  } finally {
    await postgres?.stop()
    await rm(folder, { recursive: true, force: true })
  }
}
await outside.close()
console.log(`load ${loads()}`)
console.table(rows)
process.exit()

async function measure(kind: string, database: Target, outside: Outside): Promise<void> {
  const cookies = await seed(database)
  let rivals: Record<string, string>
  if ('url' in database) rivals = { DATABASE_URL: database.url }
  else {
    // Only one process can open a folder.
    const copy = `${database.folder}/rival`
    await cp(`${database.folder}/pglite`, `${copy}/pglite`, { recursive: true })
    rivals = { DATA_DIR: copy }
  }
  const server = await startServer({ outside, database, trustedProxies: 1 })
  process.once('exit', server.kill)
  const program = launch(['tests/bench/http-rival.ts'], rivals)
  const rival = { url: await program.listens(), pid: program.child.pid }
  try {
    for (const [name, call] of Object.entries(calls)) {
      const pairs: Array<[own: Measured, rival: Measured]> = []
      // The first round compiles the code of both, and does not count.
      for (let round = 0; round <= rounds; round++) {
        const ofServer = () => load(server, call, cookies)
        const ofRival = () => load(rival, call, cookies)
        // Each comes first equally often.
        if (round % 2 === 0) pairs.push([await ofServer(), await ofRival()])
        else {
          const measured = await ofRival()
          pairs.push([await ofServer(), measured])
        }
      }
      report(kind, name, pairs.slice(1))
    }
  } finally {
    process.off('exit', server.kill)
    await server.kill()
    await program.kill()
  }
}

/** Calls for some seconds. Each connection has its own part of the sessions, and each session its own address. */
async function load(server: Running, call: Call, cookies: readonly string[]): Promise<Measured> {
  const share = sessions / connections
  let connection = 0
  const cpuBefore = cpuMs(server)
  const result = await autocannon({
    url: server.url,
    connections,
    duration: seconds,
    setupClient(client) {
      const first = connection++ * share
      client.setRequests(
        cookies.slice(first, first + share).map((cookie, n) => ({
          ...call,
          headers: {
            Cookie: cookie,
            'Sec-Fetch-Site': 'same-origin',
            'Content-Type': 'application/json',
            'X-Forwarded-For': `10.0.${Math.floor((first + n) / 250)}.${(first + n) % 250}`,
          },
        })),
      )
    },
  })
  const answered = result['2xx']
  if (result.non2xx > 0 || result.errors > 0 || answered === 0) {
    const counts = JSON.stringify(result.statusCodeStats)
    throw new Error(`${call.path}: ${result.errors} errors, answers ${counts}`)
  }
  return {
    perSecond: answered / result.duration,
    p50: result.latency.p50,
    p99: result.latency.p99,
    cpu: (cpuMs(server) - cpuBefore) / answered,
  }
}

function report(kind: string, name: string, pairs: ReadonlyArray<[Measured, Measured]>): void {
  const own = (of: keyof Measured) => median(pairs.map(([each]) => each[of]))
  const rival = (of: keyof Measured) => median(pairs.map(([, each]) => each[of]))
  const ratio = (of: keyof Measured) => median(pairs.map(([one, other]) => one[of] / other[of]))
  const met = ratio('perSecond') >= goal.throughput && ratio('p99') <= goal.p99
  const both = (of: keyof Measured, digits = 0) =>
    `${own(of).toFixed(digits)} | ${rival(of).toFixed(digits)}`
  rows.push({
    database: kind,
    call: name,
    'a second: Dealbell | Hono': both('perSecond'),
    ratio: ratio('perSecond').toFixed(2),
    'p50 ms': both('p50'),
    'p99 ms': both('p99'),
    'p99 ratio': ratio('p99').toFixed(2),
    'CPU ms a call': both('cpu', 2),
    'CPU ratio': ratio('cpu').toFixed(2),
    goal: met ? 'met' : 'missed',
  })
  console.table(rows.slice(-1))
}

/** Stores 10,000 users with a session, both services, rules and ten deliveries each. @returns their cookies. */
async function seed(target: Target): Promise<string[]> {
  const { database, close } = await openTarget(target)
  const ids = await seedUsers(database, sessions, { channelName: '#sales' })
  const cookies = await seedSessions(database, ids)
  await database.execute(
    sql`insert into channels (id, name)
        select 'T' || n || '/C' || n, '#sales' from generate_series(1, ${sessions}::int) as n`,
  )
  await database.execute(
    sql`with made as (
          insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at, received_at)
          select n::text, 'hubspot', (1 + n % ${sessions}::int)::text, n::text, 'stage', 'next', at, at
          from generate_series(1, ${sessions * deliveriesOfUser}::int) as n
          cross join lateral (select now() - make_interval(mins => n % 1000)) as time(at)
          returning id, account_id, deal_id, occurred_at as at
        )
        insert into deliveries (event_id, user_id, channel, state, occurred_at, attempts, finished_at, rule_id,
          deal_name, from_label, to_label)
        select id, (${sql.param(ids)}::uuid[])[account_id::int], 'T' || account_id || '/C' || account_id, 'sent', at,
               1, at, 'deal-stage-changed', 'Renewal of contract ' || deal_id, 'Appointment scheduled', 'Contract sent'
        from made`,
  )
  await database.execute('url' in target ? sql`vacuum analyze` : sql`vacuum`)
  await database.execute(sql`checkpoint`)
  await close()
  return cookies
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

function loads(): string {
  return loadavg()
    .map((each) => each.toFixed(1))
    .join(' ')
}
