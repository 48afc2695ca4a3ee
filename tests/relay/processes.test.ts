import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { databaseKinds, newDatabase, newPostgresDatabase } from '../database.ts'
import { dealIn, dealsIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'
import {
  connectAccount,
  drained,
  type ServerOptions,
  type ServerProcess,
  serverEnv,
  startServer,
} from './process.ts'

vi.setConfig({ testTimeout: 120_000 })

const run = promisify(execFile)

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

const newKey = () => randomBytes(32).toString('base64')

describe.each(databaseKinds)('on %s', (kind) => {
  const secrets = /secret-|xoxb-|hubspot-client-secret|slack-client-secret/

  test('no secret is stored or logged in clear; a wrong key stops the start; a new key takes over', async () => {
    const database = await newDatabase(kind)
    const [firstKey, nextKey] = [newKey(), newKey()]
    let server = await start({ database, encryptionKey: firstKey })
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
    if ('folder' in database) {
      const files = await readdir(database.folder, { recursive: true, withFileTypes: true })
      expect(files.length).toBeGreaterThan(100)
      for (const file of files.filter((entry) => entry.isFile())) {
        const text = await readFile(join(file.parentPath, file.name), 'latin1')
        expect(text, file.name).not.toMatch(secrets)
      }
    }

    await expect(start({ database, encryptionKey: nextKey })).rejects.toThrow(/ENCRYPTION_KEY/)
    server = await start({ database, encryptionKey: `${nextKey},${firstKey}` })
    await server.stop()
    // Everything is sealed with the new key now, so the old one opens nothing.
    await expect(start({ database, encryptionKey: firstKey })).rejects.toThrow(/ENCRYPTION_KEY/)
    server = await start({ database, encryptionKey: nextKey })
    await server.tell([stageChange(2, { portal: 1 })])
    await outside.accepted((posts) => posts.length === 2)
    await server.stop()
    for (const { output } of servers) expect(output.join('\n')).not.toMatch(secrets)
    expect(servers.flatMap(({ output }) => output).join('\n')).not.toMatch(/Deal \d/)
  })

  test('npm run relay prints the counts and sends the dead deliveries again', async () => {
    const options: ServerOptions = { outside, database: await newDatabase(kind) }
    let server = await start(options)
    const relay = async (command: string) =>
      (
        await run(process.execPath, ['server/cli/relay.ts', command], {
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
    await fetch(`${server.url}/webhooks/hubspot`, { method: 'POST', body: '[]' })
    expect((await relay('status')).replace(/since \S+Z/, 'since its start')).toBe(
      `pending  0
sent     1
ignored  0
dead     1
  1 × msg_too_long
refused webhooks since its start  1
  1 × without a signature
`,
    )

    outside.answerPost = () => undefined
    await server.stop()
    expect(await relay('status')).toMatch(/^dead {5}1$[\s\S]*^refused webhooks: unknown, /m)
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

describe.runIf(databaseKinds.includes('PostgreSQL'))('on PostgreSQL alone', () => {
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
      [newKey(), newKey()].map((encryptionKey) => start({ database, encryptionKey })),
    )
    const refused = started.filter((one) => one.status === 'rejected')
    expect(refused.map(({ reason }) => String(reason))).toEqual([
      expect.stringContaining('ENCRYPTION_KEY is not the one that this database was begun with.'),
    ])
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
})
