import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { sql } from 'drizzle-orm'
import { openOutside } from '../relay/outside.ts'
import { startPostgres } from '../relay/postgres.ts'
import { type ServerProcess, startServer } from '../relay/process.ts'
import { cpuMs } from './cpu.ts'
import { openTarget, seedSessions, seedUsers, type Target } from './seed.ts'

// Measures the calls of the dashboard. docs/performance.md has figures.

const { values: options } = parseArgs({
  options: { seconds: { type: 'string', default: '20' }, database: { type: 'string' } },
})
const sessions = 10_000
const connections = 200
const deliveriesOfUser = 10

const calls = {
  status: { path: '/api/hubspot/status' },
  rules: { path: '/api/notifications/rules' },
  save: {
    path: '/api/notifications/rules',
    method: 'POST',
    body: '{"rules":["deal-stage-changed","deal-closed"]}',
  },
  activity: { path: '/api/notifications/activity?limit=25' },
}
interface Call {
  path: string
  method?: string
  body?: string
}

console.log(`${cpus().length} × ${cpus()[0]?.model}, Node ${process.version}`)
const rows: Array<Record<string, string | number>> = []
// Clears up when it is cut short: PostgreSQL and the server end with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
const agent = new Agent({ keepAlive: true, maxSockets: connections })
const outside = await openOutside()
for (const kind of ['PGlite', 'PostgreSQL'].filter((each) => each === (options.database ?? each))) {
  const folder = await mkdtemp(join(tmpdir(), 'dealbell-http-'))
  const postgres = kind === 'PostgreSQL' ? await startPostgres() : undefined
  try {
    await measure(kind, postgres === undefined ? { folder } : { url: postgres.url })
  } finally {
    await postgres?.stop()
    await rm(folder, { recursive: true, force: true })
  }
}
await outside.close()
console.log(`load ${loadavg()[0]?.toFixed(1)}`)
console.table(rows)
process.exit()

async function measure(database: string, target: Target): Promise<void> {
  const cookies = await seed(target)
  const server = await startServer({ outside, database: target, trustedProxies: 1 })
  process.once('exit', server.kill)
  try {
    for (const [call, each] of Object.entries(calls)) {
      // The first calls compile the code.
      await load(server, each, cookies, 2)
      rows.push({ database, call, ...(await load(server, each, cookies, Number(options.seconds))) })
    }
  } finally {
    process.off('exit', server.kill)
    await server.kill()
  }
}

/** Calls for some seconds. Each connection has its own part of the sessions, and each session its own address. */
async function load(
  server: ServerProcess,
  call: Call,
  cookies: readonly string[],
  seconds: number,
): Promise<Record<string, string>> {
  const times: number[] = []
  const cpuBefore = cpuMs(server)
  const end = performance.now() + seconds * 1000
  const share = sessions / connections
  async function keepCalling(_: unknown, connection: number): Promise<void> {
    for (let n = 0; performance.now() < end; n++) {
      const session = connection * share + (n % share)
      const begun = performance.now()
      await send(server.url, call, cookies[session] ?? '', session)
      times.push(performance.now() - begun)
    }
  }
  await Promise.all(Array.from({ length: connections }, keepCalling))
  const sorted = times.toSorted((a, b) => a - b)
  const at = (part: number) => `${sorted[Math.ceil(sorted.length * part) - 1]?.toFixed(0)}`
  return {
    'a second': (times.length / seconds).toFixed(0),
    'p50 ms': at(0.5),
    'p99 ms': at(0.99),
    // Of the server, without PostgreSQL.
    'CPU ms a call': ((cpuMs(server) - cpuBefore) / times.length).toFixed(2),
  }
}

function send(url: string, { body, ...call }: Call, cookie: string, session: number) {
  return new Promise<void>((resolve, reject) => {
    const sending = request(url + call.path, {
      ...call,
      agent,
      headers: {
        Cookie: cookie,
        'Sec-Fetch-Site': 'same-origin',
        'Content-Type': 'application/json',
        'X-Forwarded-For': `10.0.${Math.floor(session / 250)}.${session % 250}`,
      },
    })
    sending.on('error', reject)
    sending.on('response', (answer) => {
      if ((answer.statusCode ?? 0) >= 300) reject(new Error(`${call.path}: ${answer.statusCode}`))
      answer.on('end', resolve).resume()
    })
    sending.end(body)
  })
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
