// `npm run test:failover` takes about six minutes. It starts PostgreSQL with a standby, and two servers. HubSpot tells of
// 20 events a second. The primary is killed five times, and then everything is restarted, one program after the other.
// At the end, Slack must have each event, and must have twice only what README.md says. It needs Debian's packages
// postgresql, patroni, etcd-server and haproxy, and installs them as root.

import { setTimeout as delay } from 'node:timers/promises'
import { dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { connectAccount, drained, type ServerProcess, startServer } from '../relay/process.ts'
import { startCluster, until } from './cluster.ts'

const kills = 5
const perSecond = 20
const accounts = 40
/** Webhooks must be acknowledged again so soon after the promotion. */
const mostAgainMs = 15_000
/** After this time, the test repeats a webhook. The real HubSpot waits longer. */
const repeatMs = 1_000
/** While the database was away, Slack may have accepted a message that a server could not record. */
const recordMs = 20_000

const inSeconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`
const say = (text: string) => console.log(`${new Date().toISOString().slice(11, 19)} ${text}`)

const outside = await openOutside()
const cluster = await startCluster()
say('The cluster runs.')
const database = { url: cluster.url }
const servers = [await startServer({ outside, database }), await startServer({ outside, database })]

/** Events that a server has acknowledged. */
const acknowledged = new Set<number>()
/** When each server acknowledged an event last, by `performance.now()`. */
const lastAt = [0, 0]
let repeats = 0
let events = 0
let telling = true

/** HubSpot tells of an event until a server acknowledges it. */
async function tell(deal: number): Promise<void> {
  const event = stageChange(deal, { portal: deal % accounts })
  for (let attempt = 0; ; attempt++) {
    const index = (deal + attempt) % servers.length
    const status = await servers[index]?.tell([{ ...event, attemptNumber: attempt }])
    if (status === 204) {
      acknowledged.add(deal)
      lastAt[index] = performance.now()
      return
    }
    repeats++
    await delay(repeatMs)
  }
}

async function tellAll(): Promise<void> {
  const told: Promise<void>[] = []
  while (telling) {
    told.push(tell(++events))
    await delay(1000 / perSecond)
  }
  await Promise.all(told)
}

/** In these times, a message may be sent twice. */
const windows: Array<{ from: number; until: number }> = []
const problems: string[] = []

try {
  const [first] = servers
  if (first === undefined) throw new Error('No server was started.')
  for (let portal = 0; portal < accounts; portal++) {
    await connectAccount(first, { portal, channel: `C${portal}` })
  }
  const all = tellAll()
  await delay(10_000)

  for (let kill = 1; kill <= kills; kill++) {
    const from = performance.now()
    const before = repeats
    const promotedMs = await cluster.killPrimary()
    const promotedAt = performance.now()
    const again = async () => lastAt.every((at) => at > promotedAt)
    const againMs = await until('both servers acknowledge webhooks', again, 120_000)
    if (againMs > mostAgainMs) problems.push(`kill ${kill}: acknowledged again after ${againMs} ms`)
    windows.push({ from: from - recordMs, until: performance.now() + recordMs })
    cluster.startKilled()
    const completeMs = await cluster.complete()
    say(
      `kill ${kill}: promoted after ${inSeconds(promotedMs)}, webhooks acknowledged again by both ${inSeconds(againMs)} later, ${repeats - before} tries refused meanwhile, standby back ${inSeconds(completeMs)} after its start`,
    )
    await delay(5_000)
  }

  const from = performance.now()
  const before = repeats
  for (const [index, server] of servers.entries()) {
    await server.stop()
    servers[index] = await startServer({ outside, database })
  }
  await cluster.restartEach((program) => say(`restarts ${program}`))
  windows.push({ from: from - recordMs, until: performance.now() + recordMs })
  say(
    `rolling restart of everything: ${inSeconds(performance.now() - from)}, ${repeats - before} tries refused meanwhile`,
  )

  await delay(5_000)
  telling = false
  await all
  const status = await drained(servers[0] as ServerProcess, 180_000)
  const posts = outside.posts.map((post) => ({ deals: dealsIn(post), atMs: post.atMs }))
  const times = new Map<number, number[]>()
  for (const { deals, atMs } of posts) {
    for (const deal of deals) times.set(deal, [...(times.get(deal) ?? []), atMs])
  }
  const lost = [...acknowledged].filter((deal) => !times.has(deal))
  const twice = [...times].filter(([, at]) => at.length > 1)
  const unexplained = twice.filter(
    ([, [at = 0]]) => !windows.some((window) => at > window.from && at < window.until),
  )
  say(
    `${events} events, ${acknowledged.size} acknowledged, ${posts.length} messages, ${repeats} webhooks refused`,
  )
  say(`lost: ${lost.length}; twice: ${twice.length}, of them not explained: ${unexplained.length}`)
  say(`deliveries: ${JSON.stringify(status)}`)
  if (lost.length > 0) problems.push(`lost: ${lost.join(', ')}`)
  if (unexplained.length > 0)
    problems.push(`twice: ${unexplained.map(([deal]) => deal).join(', ')}`)
  if (acknowledged.size !== events) problems.push('Not every event was acknowledged.')
} finally {
  telling = false
  await Promise.all(servers.map((server) => server.kill()))
  await cluster.stop()
  await outside.close()
}
for (const problem of problems) say(`FAILED: ${problem}`)
process.exit(problems.length > 0 ? 1 : 0)
