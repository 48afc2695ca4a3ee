import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { databaseKinds, newPostgresDatabase } from '../database.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'
import {
  connectAccount,
  connectProvider,
  drained,
  type ServerOptions,
  type ServerProcess,
  serverEnv,
  startServer,
} from './process.ts'

const run = promisify(execFile)

let outside: Outside
let folder: string
let servers: ServerProcess[]

beforeEach(async () => {
  outside = await openOutside()
  folder = await mkdtemp(join(tmpdir(), 'dealbell-'))
  servers = []
})
afterEach(async () => {
  await Promise.all(servers.map((server) => server.kill()))
  await outside.close()
  await rm(folder, { recursive: true, force: true })
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
  // Each event is told to both, by a HubSpot that did not see the first answer.
  const answers = await Promise.all(
    events.flatMap((event, n) =>
      (n % 2 ? [one, two] : [two, one]).map((server) => server.tell([event])),
    ),
  )
  expect(new Set(answers)).toEqual(new Set([204]))
  await drained(one, 30_000)
  expect(outside.posts.map(dealIn).sort((a, b) => a - b)).toEqual(events.map((_, n) => n))
  for (const { output } of [one, two]) {
    expect(output.filter((line) => line.includes('"delivery sent"')).length).toBeGreaterThan(10)
  }
})

test('a PostgreSQL that drops its connections again and again costs neither an event nor the process, and repeats none', async () => {
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
  // HubSpot tells again what was not acknowledged.
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
  expect(outside.posts.map(dealIn).sort((a, b) => a - b)).toEqual(events.map((_, n) => n))
  // Without a cut in the middle of something, this would promise nothing.
  expect(refused).toBeGreaterThan(0)
})

test('of two processes with two keys on one new PostgreSQL, only one starts', async () => {
  const database = { url: await newPostgresDatabase() }
  const started = await Promise.allSettled(
    [1, 2].map((byte) =>
      start({ database, encryptionKey: Buffer.alloc(32, byte).toString('base64') }),
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
  // So short that it is to be refreshed at its first use.
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
  // A user has one channel, which one process works on at a time. Another channel is free to the other.
  await Promise.all(
    portals.map(async (portal, n) => {
      await connectProvider(two, sessions[n] ?? { cookie: '' }, 'slack', `T1:D${portal}`)
      await two.tell([stageChange(10 + portal, { portal })])
    }),
  )
  // Long enough for a process that does not wait for the other to ask as well.
  await delay(1_500)
  answer()
  await drained(one, 30_000)
  expect(outside.posts.map(dealIn).sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 11, 12, 13, 14])
  expect(outside.refreshes).toHaveLength(portals.length)
  // Else nothing was asked of the lock.
  expect(two.output.some((line) => line.includes('"delivery sent"'))).toBe(true)
})

test('one event told 50 times at once, across a restart, is one message', async () => {
  const database = { folder }
  let server = await start({ database })
  await connectAccount(server, { portal: 1, channel: 'C1' })
  const event = stageChange(1, { portal: 1 })
  const tell = () =>
    Promise.all(
      Array.from({ length: 25 }, (_, attemptNumber) => server.tell([{ ...event, attemptNumber }])),
    )
  const before = await tell()
  await server.kill()
  server = await start({ database })
  const after = await tell()
  expect(new Set([...before, ...after])).toEqual(new Set([204]))
  expect(await drained(server, 30_000)).toMatchObject({ sent: 1 })
  expect(outside.posts).toHaveLength(1)
})

describe.each(databaseKinds)('on %s', (kind) => {
  const secrets = /secret-|xoxb-|hubspot-client-secret|slack-client-secret/

  test('secrets stand nowhere in clear; a wrong key stops the start; a new key takes over', async () => {
    const database = kind === 'PGlite' ? { folder } : { url: await newPostgresDatabase() }
    const key = () => Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64')
    const [oldKey, newKey] = [key(), key()]
    let server = await start({ database, encryptionKey: oldKey })
    const { cookie } = await connectAccount(server, { portal: 1, channel: 'C1' })
    await server.tell([stageChange(1, { portal: 1 })])
    await outside.accepted((posts) => posts.length === 1)
    const answers = await Promise.all(
      ['/api/hubspot/status', '/api/slack/status', '/api/notifications/rules', '/relay/status'].map(
        async (path) => (await fetch(server.url + path, { headers: { Cookie: cookie } })).text(),
      ),
    )
    expect(answers.join('\n')).not.toMatch(secrets)
    await server.stop()
    if (kind === 'PGlite') {
      const files = await readdir(folder, { recursive: true, withFileTypes: true })
      expect(files.length).toBeGreaterThan(100)
      for (const file of files.filter((entry) => entry.isFile())) {
        const text = await readFile(join(file.parentPath, file.name), 'latin1')
        expect(text, file.name).not.toMatch(secrets)
      }
    }

    await expect(start({ database, encryptionKey: newKey })).rejects.toThrow(/ENCRYPTION_KEY/)
    server = await start({ database, encryptionKey: `${newKey},${oldKey}` })
    await server.stop()
    // The older key is needed no more, and opens nothing any more.
    await expect(start({ database, encryptionKey: oldKey })).rejects.toThrow(/ENCRYPTION_KEY/)
    server = await start({ database, encryptionKey: newKey })
    await server.tell([stageChange(2, { portal: 1 })])
    await outside.accepted((posts) => posts.length === 2)
    await server.stop()
    for (const { output } of servers) expect(output.join('\n')).not.toMatch(secrets)
    expect(servers.flatMap(({ output }) => output).join('\n')).not.toMatch(/Deal \d/)
  })

  test('npm run relay tells the counts and sends the dead ones again', async () => {
    const options: ServerOptions = {
      outside,
      database: kind === 'PGlite' ? { folder } : { url: await newPostgresDatabase() },
    }
    let server = await start(options)
    const relay = async (command: string) =>
      (
        await run(process.execPath, ['server/relay/command.ts', command], {
          env: serverEnv(options, Number(new URL(server.url).port)),
        })
      ).stdout
    await connectAccount(server, { portal: 1, channel: 'C1' })
    outside.answerPost = ({ text }) =>
      text.includes('Deal 2')
        ? { status: 200, body: '{"ok":false,"error":"msg_too_long"}' }
        : undefined
    await server.tell([stageChange(1, { portal: 1 }), stageChange(2, { portal: 1 })])
    await drained(server, 20_000)
    expect(await relay('status')).toBe(
      'pending  0\nsent     1\nignored  0\ndead     1\n  1 × msg_too_long\n',
    )

    outside.answerPost = () => undefined
    await server.stop()
    expect(await relay('status')).toContain('dead     1')
    server = await start(options)
    expect(await relay('replay')).toBe('1 dead deliveries are sent again\n')
    await outside.accepted((posts) => posts.length === 2)
    await drained(server, 20_000)
    expect(await relay('status')).toContain('sent     2')
    expect(outside.posts.map(dealIn)).toEqual([1, 2])
    await expect(relay('nonsense')).rejects.toThrow(/Usage/)
    const stranger = await fetch(`${server.url}/relay/replay`, { method: 'POST' })
    expect(stranger.status).toBe(401)
  })
})
