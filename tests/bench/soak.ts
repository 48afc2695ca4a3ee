import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { sql } from 'drizzle-orm'
import { rowsOf } from '../../server/database/open.ts'
import { usedMemoryMb } from '../attack/server.ts'
import { appUrl, dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { startPostgres } from '../relay/postgres.ts'
import { connectAccount, type ServerProcess, startServer } from '../relay/process.ts'
import { openTarget, type Target } from './seed.ts'

// Lets the server work for an hour, with restarts, and fails if it needs more and more of something.
// docs/performance.md has figures.

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    'restart-every': { type: 'string', default: '10' },
    database: { type: 'string', default: 'PostgreSQL' },
  },
})
const minutes = Number(options.minutes)
const restartEvery = Number(options['restart-every'])
if (process.platform !== 'linux') throw new Error('The soak needs Linux: it reads /proc.')

const eventsPerSecond = 10
/** Slack takes one message a second for a channel. */
const accounts = 30
/** Each comes, connects, and goes. All have accounts where others stay. */
const visitors = 20
const visitEveryMs = 10_000
/** The tables that grow for 30 days. All others must not. */
const kept = ['deal_events', 'deliveries']
const tables = [...kept, 'users', 'sessions', 'connections', 'rules', 'channels', 'crm_accounts']

interface Sample {
  minute: number
  /** After a collection of the garbage. */
  memoryMb: number
  /** What the system counts, with garbage and code. */
  residentMb: number
  handles: number
  /** Of all tables but the two that grow. */
  rows: number
  /** Events beyond those that were told. */
  excess: number
  told: number
  oldestS: number
}
const samples: Sample[] = []

const folder = await mkdtemp(join(tmpdir(), 'dealbell-soak-'))
const postgres = options.database === 'PostgreSQL' ? await startPostgres() : undefined
const database: Target = postgres === undefined ? { folder } : { url: postgres.url }
const outside = await openOutside()
const start = () => startServer({ outside, database, nodeOptions: '--inspect=127.0.0.1:0' })
let server: ServerProcess | undefined = await start()
// When it is cut short, PostgreSQL and the server end with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
process.once('exit', () => server?.kill())
let counts = new Map<string, number>()
/** When each deal was told of whose message has not arrived. */
const waiting = new Map<number, number>()
let told = 0
let failures = 0
const end = performance.now() + minutes * 60_000

try {
  for (let portal = 1; portal <= accounts; portal++) {
    await connectAccount(server, { portal, channel: `C${portal}` })
  }
  await Promise.all([tellEvents(), receiveVisitors(), watch()])
} finally {
  await server?.kill()
  await postgres?.stop()
  await outside.close()
  await rm(folder, { recursive: true, force: true })
}
console.log(`${told} events, ${outside.posts.length} messages, ${failures} failed visits`)
process.exit(judge() ? 0 : 1)

async function tellEvents(): Promise<void> {
  const started = performance.now()
  const telling = new Set<Promise<void>>()
  for (let deal = 1; performance.now() < end; deal++) {
    await delay(Math.max(0, started + (deal * 1000) / eventsPerSecond - performance.now()))
    const one = tell(deal).finally(() => telling.delete(one))
    telling.add(one)
  }
  await Promise.all(telling)
}

/** As HubSpot does, repeats what is not acknowledged. */
async function tell(deal: number): Promise<void> {
  const change = stageChange(deal, { portal: (deal % accounts) + 1 })
  told++
  waiting.set(deal, performance.now())
  while ((await server?.tell([change])) !== 204) await delay(500)
}

async function receiveVisitors(): Promise<void> {
  for (let n = 0; performance.now() < end; n++) {
    const visitor = n % visitors
    try {
      if (server !== undefined) await visit(server, visitor)
    } catch (error) {
      // During a restart nobody answers. He comes again later.
      if (server !== undefined) console.log(`A visit failed: ${error}`)
      failures++
    }
    await delay(visitEveryMs)
  }
}

async function visit(server: ServerProcess, visitor: number): Promise<void> {
  const { url } = server
  const { cookie } = await connectAccount(server, {
    portal: (visitor % accounts) + 1,
    hubspotUser: 100 + visitor,
    channel: `V${visitor}`,
  })
  async function call(method: string, path: string): Promise<void> {
    const headers = { Cookie: cookie, Origin: appUrl, 'Sec-Fetch-Site': 'same-origin' }
    const answer = await fetch(url + path, { method, headers })
    await answer.arrayBuffer()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status}`)
  }
  for (const path of ['hubspot/status', 'slack/status', 'notifications/rules']) {
    await call('GET', `/api/${path}`)
  }
  await call('GET', '/api/notifications/activity?limit=25')
  await delay(visitEveryMs / 2)
  await call('DELETE', '/api/slack/disconnect')
  await call('DELETE', '/api/hubspot/disconnect')
  await call('DELETE', '/api/session')
}

/** Takes a sample each minute, and restarts the server. */
async function watch(): Promise<void> {
  let posts = 0
  const started = performance.now()
  for (let minute = 1; minute <= minutes; minute++) {
    await delay(Math.max(0, started + minute * 60_000 - performance.now()))
    if (server === undefined) throw new Error('The server does not run.')
    for (const post of outside.posts.slice(posts)) {
      if (post.channel.startsWith('C')) for (const deal of dealsIn(post)) waiting.delete(deal)
    }
    posts = outside.posts.length
    const now = performance.now()
    const oldest = Math.min(now, ...waiting.values())
    if ('url' in database) counts = await countRows()
    sample(server, minute, await memoryMb(server), (now - oldest) / 1000)
    if (minute % restartEvery === 0 && minute < minutes) {
      const stopping = server
      server = undefined
      await stopping.stop()
      // Only one process at a time can open PGlite's folder.
      if ('folder' in database) counts = await countRows()
      server = await start()
    }
  }
}

function sample(server: ServerProcess, minute: number, memoryMb: number, oldestS: number): void {
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
  const rows = [...counts].filter(([table]) => !kept.includes(table))
  const one = {
    minute,
    memoryMb: Math.round(memoryMb),
    residentMb: Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024),
    handles: readdirSync(`/proc/${server.pid}/fd`).length,
    rows: rows.reduce((sum, [, count]) => sum + count, 0),
    excess: Math.max(0, (counts.get('deal_events') ?? 0) - told),
    told,
    oldestS: Number(oldestS.toFixed(1)),
  }
  samples.push(one)
  console.log(JSON.stringify(one), JSON.stringify(Object.fromEntries(counts)))
}

async function memoryMb({ output }: ServerProcess): Promise<number> {
  const inspector = output.join('\n').match(/ws:\S+/)?.[0]
  if (inspector === undefined) throw new Error('The server has no inspector.')
  return await usedMemoryMb(inspector)
}

async function countRows(): Promise<Map<string, number>> {
  const open = await openTarget(database)
  try {
    const found = new Map<string, number>()
    for (const table of tables) {
      const query = sql`select count(*)::int as count from ${sql.identifier(table)}`
      const [row] = await rowsOf<{ count: number }>(open.database, query)
      found.set(table, row?.count ?? Number.NaN)
    }
    return found
  } finally {
    await open.close()
  }
}

/** Whether the last third of the samples needs no more than the first third. */
function judge(): boolean {
  const third = Math.ceil(samples.length / 3)
  const highest = (some: Sample[], of: keyof Sample) => Math.max(...some.map((each) => each[of]))
  const limits = {
    memoryMb: { factor: 1.1, more: 10 },
    handles: { factor: 1, more: 20 },
    // Visitors leave a session each.
    rows: { factor: 1.1, more: 20 },
    excess: { factor: 1, more: 0 },
    oldestS: { factor: 1, more: 30 },
  } as const
  const judged = Object.entries(limits).map(([name, { factor, more }]) => {
    const of = name as keyof typeof limits
    const first = highest(samples.slice(0, third), of)
    const last = highest(samples.slice(-third), of)
    return { measured: of, first, last, flat: last <= first * factor + more }
  })
  console.table(judged)
  return judged.every(({ flat }) => flat)
}
