import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { databaseKinds, newDatabase } from '../database.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
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

test('50 copies of one event, half of them after a restart, are one message', async () => {
  const database = await newDatabase('PGlite')
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

  test('no secret is stored or logged in clear; a wrong key stops the start; a new key takes over', async () => {
    const database = await newDatabase(kind)
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
    if ('folder' in database) {
      const files = await readdir(database.folder, { recursive: true, withFileTypes: true })
      expect(files.length).toBeGreaterThan(100)
      for (const file of files.filter((entry) => entry.isFile())) {
        const text = await readFile(join(file.parentPath, file.name), 'latin1')
        expect(text, file.name).not.toMatch(secrets)
      }
    }

    await expect(start({ database, encryptionKey: newKey })).rejects.toThrow(/ENCRYPTION_KEY/)
    server = await start({ database, encryptionKey: `${newKey},${oldKey}` })
    await server.stop()
    // Everything is sealed with the new key now, so the old one opens nothing.
    await expect(start({ database, encryptionKey: oldKey })).rejects.toThrow(/ENCRYPTION_KEY/)
    server = await start({ database, encryptionKey: newKey })
    await server.tell([stageChange(2, { portal: 1 })])
    await outside.accepted((posts) => posts.length === 2)
    await server.stop()
    for (const { output } of servers) expect(output.join('\n')).not.toMatch(secrets)
    expect(servers.flatMap(({ output }) => output).join('\n')).not.toMatch(/Deal \d/)
  })

  test('npm run relay prints the counts and sends the dead deliveries again', async () => {
    const options: ServerOptions = {
      outside,
      database: await newDatabase(kind),
    }
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
