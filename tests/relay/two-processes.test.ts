import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { newPostgresDatabase } from '../database.ts'
import { dealsIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'
import {
  connectAccount,
  connectProvider,
  drained,
  type ServerOptions,
  type ServerProcess,
  startServer,
} from './process.ts'

vi.setConfig({ testTimeout: 120_000 })

let outside: Outside
let servers: ServerProcess[]

beforeEach(async () => {
  outside = await openOutside()
  servers = []
})
afterEach(async () => {
  await Promise.all(servers.map((server) => server.kill()))
  await outside.close()
})

async function start(options: Omit<ServerOptions, 'outside'>): Promise<ServerProcess> {
  const server = await startServer({ outside, ...options })
  servers.push(server)
  return server
}

test('two processes on one PostgreSQL share the work, and no message is doubled', async () => {
  const database = { url: await newPostgresDatabase() }
  const [one, two] = await Promise.all([start({ database }), start({ database })])
  const channels = 60
  for (let n = 0; n < channels; n++) await connectAccount(one, { portal: n + 1, channel: `C${n}` })
  const events = Array.from({ length: 120 }, (_, n) =>
    stageChange(n, { portal: (n % channels) + 1 }),
  )
  // HubSpot sends each event to both, as if it had not received the first answer.
  const answers = await Promise.all(
    events.flatMap((event, n) =>
      (n % 2 ? [one, two] : [two, one]).map((server) => server.tell([event])),
    ),
  )
  expect(new Set(answers)).toEqual(new Set([204]))
  await drained(one, 30_000)
  expect(outside.posts.flatMap(dealsIn).sort((a, b) => a - b)).toEqual(events.map((_, n) => n))
  for (const { output } of [one, two]) {
    expect(output.filter((line) => line.includes('"delivery sent"')).length).toBeGreaterThan(10)
  }
})

test('while PostgreSQL keeps dropping its connections, no event is lost or repeated', async () => {
  const url = await newPostgresDatabase()
  const server = await start({ database: { url } })
  const channels = 20
  for (let n = 0; n < channels; n++)
    await connectAccount(server, { portal: n + 1, channel: `C${n}` })
  const postgres = new pg.Client({ connectionString: url })
  await postgres.connect()
  let isCutting = true
  async function cut(): Promise<void> {
    while (isCutting) {
      await postgres.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()`,
      )
      await delay(100)
    }
  }
  const cutting = cut()
  const events = Array.from({ length: 100 }, (_, n) =>
    stageChange(n, { portal: (n % channels) + 1 }),
  )
  // HubSpot repeats what was not acknowledged.
  let refused = 0
  const waiting = [...events]
  async function tellAll(): Promise<void> {
    for (let event = waiting.shift(); event !== undefined; event = waiting.shift()) {
      for (;;) {
        const answer = await server.tell([event])
        if (answer === 204) break
        expect(answer).toBe(500)
        refused += 1
      }
    }
  }
  await Promise.all([tellAll(), tellAll()])
  await outside.accepted((all) => all.length > 10)
  isCutting = false
  await cutting
  await postgres.end()
  await drained(server, 60_000)
  expect(outside.posts.flatMap(dealsIn).sort((a, b) => a - b)).toEqual(events.map((_, n) => n))
  // At least one connection was dropped during a request; otherwise this test shows nothing.
  expect(refused).toBeGreaterThan(0)
})

test('of two processes with two keys on one new PostgreSQL, only one starts', async () => {
  const database = { url: await newPostgresDatabase() }
  const started = await Promise.allSettled(
    [randomBytes(32), randomBytes(32)].map((key) =>
      start({ database, encryptionKey: key.toString('base64') }),
    ),
  )
  const refused = started.filter((one) => one.status === 'rejected')
  expect(refused.map(({ reason }) => String(reason))).toEqual([
    expect.stringContaining('ENCRYPTION_KEY is not the one that this database was begun with.'),
  ])
})

test('two processes that need an access token at once refresh it once', async () => {
  const database = { url: await newPostgresDatabase() }
  const [one, two] = await Promise.all([start({ database }), start({ database })])
  const portals = [1, 2, 3, 4]
  // The token is so short-lived that its first use refreshes it.
  outside.expiresInS = 60
  const sessions = await Promise.all(
    portals.map((portal) => connectAccount(one, { portal, channel: `C${portal}` })),
  )
  outside.expiresInS = 1800
  let answer = () => {}
  const slow = new Promise<undefined>((resolve) => {
    answer = () => resolve(undefined)
  })
  outside.answerRefresh = () => slow
  await Promise.all(portals.map((portal) => one.tell([stageChange(portal, { portal })])))
  await vi.waitFor(() => expect(outside.refreshes).toHaveLength(portals.length), 5_000)
  // One process works on a channel at a time. With a new channel for each user, the other process works too.
  await Promise.all(
    portals.map(async (portal, n) => {
      await connectProvider(two, sessions[n] ?? { cookie: '' }, 'slack', `T-D${portal}:D${portal}`)
      await two.tell([stageChange(10 + portal, { portal })])
    }),
  )
  // A process that did not wait for the other would refresh within this time.
  await delay(1_500)
  answer()
  await drained(one, 30_000)
  expect(outside.posts.flatMap(dealsIn).sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 11, 12, 13, 14])
  expect(outside.refreshes).toHaveLength(portals.length)
  // The second process sent messages, so it needed the tokens too.
  expect(two.output.some((line) => line.includes('"delivery sent"'))).toBe(true)
})

test('a process opens as many connections to PostgreSQL as DATABASE_POOL_SIZE says', async () => {
  const database = { url: await newPostgresDatabase() }
  const server = await start({ database, poolSize: 3 })
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const opened = async () => {
    // Otherwise a transaction always sees what its first query saw.
    await client.query('select pg_stat_clear_snapshot()')
    const { rows } = await client.query(
      'select count(*)::int as opened from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    return rows[0].opened
  }
  // Each request asks for its session, so it waits for this lock with a connection of its own.
  await client.query('begin; lock table sessions')
  const headers = { Cookie: 'dealbell=unknown' }
  const answers = Promise.all(
    Array.from({ length: 20 }, () => fetch(`${server.url}/api/notifications/rules`, { headers })),
  )
  await expect.poll(opened, { timeout: 10_000 }).toBe(3)
  await client.query('rollback')
  expect(new Set((await answers).map(({ status }) => status))).toEqual(new Set([200]))
  expect(await opened()).toBe(3)
  await client.end()
})
