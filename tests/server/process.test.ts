import { once } from 'node:events'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { connect as connectSocket, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { newDataFolder } from '../database.ts'
import { listen } from './harness.ts'
import { connect, startServer } from './program.ts'

// A process takes a second to start, and many more on a busy machine.
vi.setConfig({ testTimeout: 120_000 })

let dataDir: string
beforeEach(async () => {
  dataDir = await newDataFolder()
})
afterEach(() => rm(dataDir, { recursive: true, force: true }))

function launch(env: Record<string, string> = {}, options: { openFiles?: number } = {}) {
  const server = startServer({ DATA_DIR: dataDir, ...env }, options)
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

test('a server keeps everything over a restart, and a kill', async () => {
  let server = launch()
  let url = await server.listens()
  const { port } = new URL(url)
  const Cookie = await connect(url, 'slack', await connect(url, 'hubspot'))
  const saved = await fetch(`${url}/api/notifications/rules`, {
    method: 'POST',
    headers: { Cookie, 'Content-Type': 'application/json' },
    body: '{"rules":["deal-closed"]}',
  })
  expect(saved.status).toBe(204)
  const read = async (path: string) => (await fetch(url + path, { headers: { Cookie } })).json()

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    server.child.kill(signal)
    expect(await server.exited).toBe(signal === 'SIGTERM' ? 0 : null)
    server = launch({ PORT: port })
    url = await server.listens()
    expect(await read('/api/notifications/rules')).toEqual({ rules: ['deal-closed'] })
    expect(await read('/api/hubspot/status')).toMatchObject({ connected: true })
    expect(await read('/api/slack/status')).toMatchObject({ connected: true })
  }

  // Only the owner of the data folder can read its key.
  expect((await stat(join(dataDir, 'encryption.key'))).mode & 0o777).toBe(0o600)
})

describe('the data folder', () => {
  test('belongs to one process: a second one names the first and ends', async () => {
    const first = launch()
    await first.listens()
    const second = launch()
    await expect(second.listens()).rejects.toThrow(`process ${first.child.pid}`)
    expect(await second.exited).toBe(1)
    expect(second.output).not.toMatch(/\n {4}at /)
    // The first is not disturbed.
    expect((await fetch(`${await first.listens()}/health`)).status).toBe(200)
  })

  test('is free after a crash, also for four at once and when the old pid is in use again: one takes it', async () => {
    const dead = launch()
    await dead.listens()
    await dead.kill()
    await writeFile(join(dataDir, 'lock.pid'), `${process.pid}\n`)

    const takers = Array.from({ length: 4 }, () => launch())
    const ends = await Promise.allSettled(takers.map((taker) => taker.listens()))
    const owners = takers.filter((_, n) => ends[n]?.status === 'fulfilled')
    expect(owners).toHaveLength(1)
    const pid = (await readFile(join(dataDir, 'lock.pid'), 'utf8')).trim()
    expect(pid).toBe(`${owners[0]?.child.pid}`)
  })
})

describe('a signal', () => {
  /** A server that got a signal while a request waits for HubSpot, whose answer the test gives. */
  async function busy(signal: 'SIGTERM' | 'SIGINT') {
    const { promise: called, resolve } = Promise.withResolvers<ServerResponse>()
    const hubspot = createServer((_request, response) => resolve(response))
    onTestFinished(() => void hubspot.close())
    const server = launch({ HUBSPOT_API_URL: `http://127.0.0.1:${await listen(hubspot)}` })
    const url = await server.listens()
    const begun = await fetch(`${url}/api/hubspot/auth`, { redirect: 'manual' })
    const state = new URL(begun.headers.get('Location') ?? '').searchParams.get('state')
    const answer = fetch(`${url}/api/hubspot/callback?code=x&state=${state}`, {
      headers: { Cookie: begun.headers.getSetCookie()[0]?.split(';')[0] ?? '' },
    }).catch((error: unknown) => error)
    const response = await called
    server.child.kill(signal)
    await server.said(/Stopping/)
    return { server, url, answer, response }
  }

  test('SIGTERM lets running requests finish and takes no new ones; exit 0', async () => {
    const { server, url, answer, response } = await busy('SIGTERM')
    await expect(fetch(`${url}/health`)).rejects.toThrow()
    response.writeHead(400, { 'Content-Type': 'application/json' })
    response.end('{"status":"BAD_AUTH_CODE"}')
    expect(await answer).toHaveProperty('status', 502)
    const answeredAt = performance.now()
    expect(await server.exited).toBe(0)
    // The client would keep its connection for five seconds; the server does not wait for that.
    expect(performance.now() - answeredAt).toBeLessThan(4_900)
  })

  test('SIGTERM ends the process within ten seconds, whatever clients do', async () => {
    const server = launch()
    const url = await server.listens()
    const head = 'HTTP/1.1\r\nHost: localhost\r\n'
    const manyAnswers = `GET /sandbox/hubspot/deals ${head}\r\n`.repeat(1_000)
    const sockets = [
      await openSocket(url),
      await openSocket(url, `GET / ${head}`),
      await openSocket(url, 'nonsense\r\n\r\n'),
      await openSocket(url, `POST /sandbox/contact-form ${head}Content-Length: 9\r\n\r\n`),
      await openSocket(url, manyAnswers),
    ]
    // The server has taken all of them, because it answers a later one.
    expect((await fetch(`${url}/health`)).status).toBe(200)
    const stoppedAt = performance.now()
    server.child.kill('SIGTERM')
    await server.exited
    expect(performance.now() - stoppedAt).toBeLessThan(10_000)
    for (const socket of sockets) socket.destroy()
  })

  test('of a second kind ends it at once', async () => {
    const { server, answer, response } = await busy('SIGINT')
    // The same signal again at once is one Ctrl-C: it comes from the terminal and from npm.
    server.child.kill('SIGINT')
    server.child.kill('SIGTERM')
    expect(await server.exited).toBe(143)
    await answer
    response.destroy()
  })
})

test.skipIf(process.platform === 'win32')(
  'silent clients cannot use up the files that the process may open',
  async () => {
    const server = launch({}, { openFiles: 300 })
    const url = await server.listens()
    const sockets: Socket[] = []
    for (let n = 0; n < 400; n++) sockets.push(await openSocket(url))
    for (let n = 0; n < 5; n++) expect((await fetch(`${url}/health`)).status).toBe(200)
    for (const socket of sockets) socket.destroy()
  },
)
