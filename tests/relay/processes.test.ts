import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { databaseKinds, newDatabase, newFolder, newPostgresDatabase } from '../database.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { listen } from './listen.ts'
import { type Outside, openOutside } from './outside.ts'
import {
  connectAccount,
  drained,
  type ServerOptions,
  type ServerProcess,
  serverEnv,
  serverKey,
  startServer,
} from './process.ts'

vi.setConfig({ testTimeout: 300_000 })

const run = promisify(execFile)

let outside: Outside
let servers: ServerProcess[] = []

beforeAll(async () => {
  outside = await openOutside()
})
afterAll(async () => {
  await Promise.all(servers.map((server) => server.kill()))
  await outside.close()
})

async function start(options: Omit<ServerOptions, 'outside'>): Promise<ServerProcess> {
  const server = await startServer({ outside, ...options })
  servers.push(server)
  return server
}

// Each test goes on where the one before it has ended.
describe.each(databaseKinds)('a server on %s', (kind) => {
  const secrets = /secret-|xoxb-|hubspot-client-secret|slack-client-secret/
  const firstKey = serverKey.toString('base64')
  const nextKey = randomBytes(32).toString('base64')
  let database: ServerOptions['database']
  let server: ServerProcess
  let cookie: string

  beforeAll(async () => {
    servers = []
    outside.posts.length = 0
    database = await newDatabase(kind)
    server = await start({ database })
    cookie = (await connectAccount(server, { portal: 1, channel: 'C1' })).cookie
  })

  /** @param typed is what the operator answers to a question. */
  async function relay(command: string, encryptionKey = firstKey, typed = ''): Promise<string> {
    const port = Number(new URL(server.url).port)
    const env = serverEnv({ outside, database, encryptionKey }, port)
    const running = run(process.execPath, ['server/cli/relay.ts', ...command.split(' ')], { env })
    running.child.stdin?.end(typed)
    return (await running).stdout
  }

  test('npm run relay prints what the server knows', async () => {
    outside.answerPost = ({ text }) =>
      text.includes('Deal 2')
        ? { status: 200, body: '{"ok":false,"error":"msg_too_long"}' }
        : undefined
    await server.tell([stageChange(1, { portal: 1 }), stageChange(2, { portal: 1 })])
    await drained(server, 20_000)
    outside.answerPost = () => undefined
    const counts = 'pending  0\nsent     1\nignored  0\ndead     1\n  1 × msg_too_long\n'
    expect(await relay('count')).toBe(counts)
    expect(JSON.parse(await relay('status'))).toMatchObject({
      pending: 0,
      connections: [
        { provider: 'hubspot', broken: false, count: 1 },
        { provider: 'slack', broken: false, count: 1 },
      ],
    })
    for (const path of ['hubspot/status', 'slack/status', 'notifications/rules']) {
      const answer = await fetch(`${server.url}/api/${path}`, { headers: { Cookie: cookie } })
      expect(await answer.text()).not.toMatch(secrets)
    }
    await expect(relay('count', nextKey)).rejects.toThrow(
      /has another encryption key\. Set ENCRYPTION_KEY and DATA_DIR as for that server, or restart it/,
    )
    expect(JSON.parse(await relay('account 1'))).toMatchObject({ users: 1, sent: 1, dead: 1 })
    await expect(relay('account 2')).rejects.toThrow(/Nobody has connected an account 2/)
    await expect(relay('account 1 --pause --resume')).rejects.toThrow(/Usage:/)
    await server.stop()
    await expect(relay('count')).rejects.toThrow(
      /asks the server on this machine, but none answers at .* Set PORT and HOST as for that server, or start it/,
    )
  })

  test.runIf(kind === 'PGlite')('no secret is stored in clear', async () => {
    const folder = 'folder' in database ? database.folder : ''
    const files = await readdir(folder, { recursive: true, withFileTypes: true })
    expect(files.length).toBeGreaterThan(100)
    for (const file of files.filter((entry) => entry.isFile())) {
      const text = await readFile(join(file.parentPath, file.name), 'latin1')
      expect(text, file.name).not.toMatch(secrets)
    }
  })

  test('a new key takes over, npm run relay sends dead deliveries again, and the old key opens nothing', async () => {
    server = await start({ database, encryptionKey: `${nextKey},${firstKey}` })
    expect(await relay('replay', nextKey)).toBe('1 dead deliveries are sent again\n')
    await outside.accepted((posts) => posts.length === 2)
    expect(outside.posts.map(dealIn)).toEqual([1, 2])
    const file = join(await newFolder(), 'account')
    await relay(`account 1 --export ${file}`, nextKey)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const { deliveries } = JSON.parse(await readFile(file, 'utf8'))
    expect(deliveries).toHaveLength(2)
    await connectAccount(server, { portal: 2, channel: 'C2' })
    const remove = 'account 2 --delete'
    await expect(relay(remove, nextKey, '1\n')).rejects.toThrow(/Nothing was deleted/)
    await expect(relay(remove, nextKey)).rejects.toThrow(/Nothing was deleted/)
    await expect(relay(`account 1 --export ${file} --yes`, nextKey)).rejects.toThrow(/Usage:/)
    expect(await relay(remove, nextKey, '2\n')).toBe('All that belonged to it is deleted.\n')
    await expect(relay('account 2', nextKey)).rejects.toThrow(/Nobody has connected an account 2/)
    await server.stop()
    await expect(start({ database })).rejects.toThrow(/ENCRYPTION_KEY/)
    const printed = servers.flatMap(({ output }) => output).join('\n')
    expect(printed).not.toMatch(secrets)
    expect(printed).not.toMatch(/Deal \d/)
  })
})

test('the command for one account does nothing if two CRMs have one with this id', async () => {
  const calls: string[] = []
  const accounts = ['hubspot:7', 'pipedrive:7']
  const { url, close } = await listen(({ method, url }, response) => {
    calls.push(`${method} ${url}`)
    response.end(JSON.stringify({ accounts }))
  })
  onTestFinished(close)
  const env = serverEnv(
    { outside, database: { folder: await newFolder() } },
    Number(new URL(url).port),
  )
  const running = run(
    process.execPath,
    ['server/cli/relay.ts', 'account', '7', '--delete', '--yes'],
    { env },
  )
  await expect(running).rejects.toThrow(
    /7 is an account of each of several CRMs\. Say hubspot:7 or pipedrive:7\./,
  )
  expect(calls).toEqual(['GET /relay/account/7'])
})

test('no name in an export controls a terminal that shows it', async () => {
  const name = '\u001B[31m \u009B31m \u007F \u202Elatot\u2069'
  const { url, close } = await listen(({ url }, response) => {
    response.end(JSON.stringify(url?.endsWith('/export') ? { name } : { accounts: ['hubspot:7'] }))
  })
  onTestFinished(close)
  const database = { folder: await newFolder() }
  const env = serverEnv({ outside, database }, Number(new URL(url).port))
  const file = join(database.folder, 'export')
  const args = ['server/cli/relay.ts', 'account', '7', '--export', file]
  await run(process.execPath, args, { env })
  const written = await readFile(file, 'utf8')
  expect(written).not.toMatch(/[^\P{Cc}\n]|\p{Bidi_Control}/u)
  expect(JSON.parse(written)).toEqual({ name })
})

describe.runIf(databaseKinds.includes('PostgreSQL'))('on PostgreSQL alone', () => {
  test('of two processes with two keys on one new PostgreSQL, only one starts', async () => {
    const database = { url: await newPostgresDatabase() }
    const started = await Promise.allSettled(
      [1, 2].map(() => start({ database, encryptionKey: randomBytes(32).toString('base64') })),
    )
    const refused = started.filter((one) => one.status === 'rejected')
    expect(refused.map(({ reason }) => String(reason))).toEqual([
      expect.stringContaining('ENCRYPTION_KEY is not the one that this database was begun with.'),
    ])
  })
})
