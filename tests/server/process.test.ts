import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { connect as connectSocket, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { newDataFolder } from '../database.ts'
import { listenInTest } from './harness.ts'
import { connect, launch as launchProgram, type Program, startServer } from './program.ts'

// A process takes a second to start, and many more on a busy machine.
vi.setConfig({ testTimeout: 120_000 })

let dataDir: string
beforeEach(async () => {
  dataDir = await newDataFolder()
})

function launch(env: Record<string, string> = {}) {
  const server = startServer({ DATA_DIR: dataDir, ...env })
  onTestFinished(() => server.kill())
  return server
}

/** A client that sends `text`, reads nothing and never closes. */
async function openSocket(url: string, text = ''): Promise<Socket> {
  const socket = connectSocket({ port: Number(new URL(url).port), allowHalfOpen: true })
  await once(socket, 'connect')
  socket.on('error', () => undefined)
  socket.write(text)
  return socket
}

test('a data folder belongs to one process, and keeps everything over a restart and a kill', async () => {
  const first = launch()
  const url = await first.listens()
  const Cookie = await connect(url, 'slack', await connect(url, 'hubspot'))
  const saved = await fetch(`${url}/api/notifications/rules`, {
    method: 'POST',
    headers: { Cookie, 'Content-Type': 'application/json' },
    body: '{"rules":["deal-closed"]}',
  })
  expect(saved.status).toBe(204)

  const second = launch()
  await expect(second.listens()).rejects.toThrow(`process ${first.child.pid}`)
  expect(await second.exited).toBe(1)
  expect(second.output).not.toMatch(/\n {4}at /)
  // The first is not disturbed.
  expect((await fetch(`${url}/health`)).status).toBe(200)

  async function expectEverything(server: Program) {
    const url = await server.listens()
    const read = async (path: string) => (await fetch(url + path, { headers: { Cookie } })).json()
    expect(await read('/api/notifications/rules')).toEqual({ rules: ['deal-closed'] })
    expect(await read('/api/hubspot/status')).toMatchObject({ connected: true })
    expect(await read('/api/slack/status')).toMatchObject({ connected: true })
  }
  first.child.kill('SIGTERM')
  expect(await first.exited).toBe(0)
  const restarted = launch()
  await expectEverything(restarted)
  await restarted.kill()

  // The old process id may be in use again. Of four starts at once, one takes the folder.
  await writeFile(join(dataDir, 'lock.pid'), `${process.pid}\n`)
  const takers = Array.from({ length: 4 }, () => launch())
  const ends = await Promise.allSettled(takers.map((taker) => taker.listens()))
  const [owner, ...others] = takers.filter((_, n) => ends[n]?.status === 'fulfilled')
  expect(others).toEqual([])
  if (owner === undefined) throw new Error('No process took the folder.')
  const pid = (await readFile(join(dataDir, 'lock.pid'), 'utf8')).trim()
  expect(pid).toBe(`${owner.child.pid}`)
  await expectEverything(owner)
})

test('with a stand-in, only this machine reaches the server, at both addresses of localhost, and the start says so', async () => {
  const isLinux = process.platform === 'linux'
  const others = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ internal, family }) => !internal && family === 'IPv4')
    .map(({ address }) => address)
  /** Other addresses of this machine. On Linux, all of 127.0.0.0/8 are. */
  const elsewhere = [...(isLinux ? ['127.0.0.2'] : []), ...others]
  const answers = async (host: string, url: string) => {
    const address = new URL('/health', url)
    address.hostname = host
    return (await fetch(address).catch(() => undefined))?.status
  }
  const atAll = (hosts: readonly string[], url: string) =>
    Promise.all(hosts.map((host) => answers(host, url)))

  const own = launch()
  const url = await own.listens()
  expect(await atAll(['127.0.0.1', '[::1]'], url)).toEqual([200, 200])
  expect(await atAll(elsewhere, url)).toEqual(elsewhere.map(() => undefined))
  expect(own.output).toMatch(
    /Only this machine can open it, .* ALLOW_STAND_INS=true lets others in/,
  )
  // Connections to both are still open.
  own.child.kill('SIGTERM')
  expect(await own.exited).toBe(0)

  const open = launch({ ALLOW_STAND_INS: 'true' })
  const opened = await open.listens()
  expect(await atAll(elsewhere, opened)).toEqual(elsewhere.map(() => 200))
  expect(open.output).not.toContain('Only this machine')
})

const ready = (url: string) =>
  vi.waitFor(async () => expect((await fetch(`${url}/ready`)).status).toBe(200), 20_000)

test('SIGTERM lets running requests finish and takes no new ones; exit 0', async () => {
  const { promise: called, resolve } = Promise.withResolvers<ServerResponse>()
  const hubspot = createServer((_request, response) => resolve(response))
  const server = launch({ HUBSPOT_API_URL: `http://127.0.0.1:${await listenInTest(hubspot)}` })
  const url = await server.listens()
  const begun = await fetch(`${url}/api/hubspot/auth`, { redirect: 'manual' })
  const state = new URL(begun.headers.get('Location') ?? '').searchParams.get('state')
  const answer = fetch(`${url}/api/hubspot/callback?code=x&state=${state}`, {
    headers: { Cookie: begun.headers.getSetCookie()[0]?.split(';')[0] ?? '' },
  })
  const response = await called
  server.child.kill('SIGTERM')
  await server.said(/Stopping/)
  await expect(fetch(`${url}/health`)).rejects.toThrow()
  response.writeHead(400, { 'Content-Type': 'application/json' })
  response.end('{"status":"BAD_AUTH_CODE"}')
  expect(await answer).toHaveProperty('status', 502)
  expect(await server.exited).toBe(0)
})

test('SIGTERM with a STOP_DELAY first tells load balancers, and Ctrl-C does not wait for it', async () => {
  const server = launch({ STOP_DELAY: '300' })
  const url = await server.listens()
  await ready(url)
  server.child.kill('SIGTERM')
  await server.said(/Stopping/)
  const answer = await fetch(`${url}/ready`)
  expect([answer.status, await answer.json()]).toEqual([
    503,
    { status: 'not ready', failing: ['stopping'] },
  ])
  // Everything else still works.
  expect((await fetch(`${url}/health`)).status).toBe(200)
  await server.kill()

  const other = launch({ STOP_DELAY: '300' })
  await ready(await other.listens())
  other.child.kill('SIGINT')
  expect(await other.exited).toBe(0)
})

test.skipIf(process.platform === 'win32')(
  'npm start builds the dashboard and serves it until Ctrl+C',
  async () => {
    const { HOME = '' } = process.env
    const env = { HOME, PORT: '0', DATA_DIR: dataDir }
    const npm = launchProgram(['start'], env, { program: 'npm', detached: true })
    onTestFinished(npm.killGroup)
    const url = await npm.listens()
    expect(await (await fetch(url)).text()).toContain('<title>Dealbell</title>')
    npm.signalGroup('SIGINT')
    // The server holds npm's outputs until it ends.
    await npm.exited
    expect(npm.output).toContain('Stopping …')
    await expect(fetch(`${url}/health`)).rejects.toThrow()
  },
)

test('a server whose reader of the log has gone works on, counts the lost lines, and stops as always', async () => {
  const server = launch({ METRICS_TOKEN: 'a-token-of-16-characters', LOG_LEVEL: 'debug' })
  const url = await server.listens()
  for (const stream of [server.child.stdout, server.child.stderr]) stream?.destroy()
  const headers = { Authorization: 'Bearer a-token-of-16-characters' }
  await vi.waitFor(async () => {
    // The server logs this.
    const refused = await fetch(`${url}/webhooks/hubspot`, { method: 'POST', body: '[]' })
    expect(refused.status).toBe(401)
    const metrics = await (await fetch(`${url}/metrics`, { headers })).text()
    expect(metrics).toMatch(/^dealbell_log_lines_lost_total [1-9]/m)
  }, 20_000)
  server.child.kill('SIGTERM')
  expect(await server.exited).toBe(0)
})

test('an uncaught error ends the server with one JSON line, which does not quote its message', async () => {
  const fault = "process.once('SIGUSR2', () => { throw new TypeError('hunter' + 2) })"
  const server = launchProgram(['--import', `data:text/javascript,${fault}`, 'server/main.ts'], {
    ...{ PORT: '0', SERVE_DASHBOARD: 'false', LOG_LEVEL: 'error', DATA_DIR: dataDir },
  })
  onTestFinished(() => server.kill())
  await server.listens()
  server.child.kill('SIGUSR2')
  expect(await server.exited).toBe(1)
  expect(JSON.parse(server.output.trim().split('\n').at(-1) ?? '')).toEqual({
    time: expect.any(String),
    level: 'error',
    event: 'uncaught error',
    origin: 'uncaughtException',
    error: 'TypeError',
    at: expect.any(Array),
  })
  expect(server.output).not.toContain('hunter2')
})

test('a stop takes at most ten seconds, whatever clients do', async () => {
  const server = launch({ TRUSTED_PROXIES: '1' })
  const url = await server.listens()
  // A stop does not wait for a proxy's idle connections either.
  expect((await fetch(`${url}/health`)).headers.get('Keep-Alive')).toBe('timeout=620')
  const sockets: Socket[] = []
  const head = 'HTTP/1.1\r\nHost: localhost\r\n'
  const manyAnswers = `GET /sandbox/hubspot/deals ${head}\r\n`.repeat(1_000)
  const contactForm = `POST /sandbox/contact-form ${head}Content-Length: 9\r\n\r\n`
  for (const text of ['', `GET / ${head}`, 'nonsense\r\n\r\n', contactForm, manyAnswers]) {
    sockets.push(await openSocket(url, text))
  }
  // The server has taken all of them, because it answers a later one.
  expect((await fetch(`${url}/health`)).status).toBe(200)
  const stoppedAt = performance.now()
  server.child.kill('SIGTERM')
  await server.exited
  expect(performance.now() - stoppedAt).toBeLessThan(10_000)
  for (const socket of sockets) socket.destroy()
})

test.skipIf(process.platform === 'win32').each([
  [['start'], /Open (http:\S+)/],
  [['run', 'dev'], /The dashboard is at (http:\S+?)\. /],
])('SIGTERM to npm alone ends npm %j cleanly', async (args, ready) => {
  const { HOME = '' } = process.env
  const env = { HOME, PORT: '0', DEV_PORT: '0', DATA_DIR: dataDir }
  const npm = launchProgram(args, env, { program: 'npm', detached: true })
  onTestFinished(npm.killGroup)
  const url = await npm.said(ready)
  npm.child.kill('SIGTERM')
  await npm.exited
  expect(npm.output).toContain('Stopping …')
  await expect(fetch(`${url}/health`)).rejects.toThrow()
})

test.each([
  ['relay -- account', ['server/cli/relay.ts', 'account', '4200001']],
  ['doctor', ['server/doctor/doctor.ts']],
])('npm run %s ends without a word when its reader has gone', async (_, args) => {
  const server = launch()
  const url = await server.listens()
  await connect(url, 'hubspot')
  const PORT = new URL(url).port
  const command = launchProgram(args, { DATA_DIR: dataDir, PORT })
  command.child.stdout?.destroy()
  expect([await command.exited, command.output]).toEqual([0, ''])
})
