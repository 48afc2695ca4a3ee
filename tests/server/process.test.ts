import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { connect as connectSocket, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { newDataFolder } from '../database.ts'

// A process takes a second to start, and many more on a busy machine.
vi.setConfig({ testTimeout: 120_000 })

let dataDir: string
const running = new Set<ChildProcess>()

beforeEach(async () => {
  dataDir = await newDataFolder()
})
afterEach(async () => {
  for (const child of running) {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await rm(dataDir, { recursive: true, force: true })
})

/** A real server process; `said` resolves when its output matches. */
function launch(env: Record<string, string> = {}, { openFiles }: { openFiles?: number } = {}) {
  const [program, ...rest] =
    openFiles === undefined
      ? [process.execPath]
      : ['/bin/sh', '-c', `ulimit -n ${openFiles}; exec "$0" "$@"`, process.execPath]
  const child = spawn(program, [...rest, 'server/main.ts'], {
    env: {
      PATH: process.env.PATH,
      PORT: '0',
      SERVE_DASHBOARD: 'false',
      DATA_DIR: dataDir,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.add(child)
  let output = ''
  const waiting = new Set<() => void>()
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk
      for (const look of waiting) look()
    })
  }
  const exited = once(child, 'close').then(() => {
    running.delete(child)
    for (const look of waiting) look()
    return child.exitCode
  })

  function said(pattern: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = output.match(pattern)
        if (found !== null) resolve(found[1] ?? found[0])
        else if (child.exitCode !== null) reject(new Error(`It ended and had said: ${output}`))
        else return
        waiting.delete(look)
      }
      waiting.add(look)
      look()
    })
  }

  return {
    child,
    exited,
    said,
    listens: () => said(/listens on (http:\S+)/),
    get output() {
      return output
    },
  }
}

/** A client that sends `text`, reads nothing and never closes. */
async function openSocket(url: string, text = ''): Promise<Socket> {
  const socket = connectSocket({ port: Number(new URL(url).port), allowHalfOpen: true })
  await once(socket, 'connect')
  socket.on('error', () => undefined)
  socket.write(text)
  return socket
}

/** Walks through consent with real HTTP and a cookie jar of one. */
async function connect(url: string, provider: 'hubspot' | 'slack', cookie?: string) {
  const begun = await fetch(`${url}/api/${provider}/auth`, {
    redirect: 'manual',
    headers: cookie === undefined ? {} : { Cookie: cookie },
  })
  const session = begun.headers.getSetCookie()[0]?.split(';')[0] ?? cookie ?? ''
  const consent = new URL(begun.headers.get('Location') ?? '')
  const form = new URLSearchParams({
    ...Object.fromEntries(consent.searchParams),
    answer: 'allow',
    channel: 'C0DEALS001',
  })
  const back = await fetch(consent.origin + consent.pathname, {
    method: 'POST',
    body: form,
    redirect: 'manual',
  })
  const { search } = new URL(back.headers.get('Location') ?? '')
  const done = await fetch(`${url}/api/${provider}/callback${search}`, {
    headers: { Cookie: session },
  })
  expect(done.status).toBe(204)
  return done.headers.getSetCookie()[0]?.split(';')[0] ?? session
}

async function json(url: string, cookie: string): Promise<unknown> {
  return (await fetch(url, { headers: { Cookie: cookie } })).json()
}

describe('a server process', () => {
  test('keeps everything over a restart, and a kill', async () => {
    let server = launch()
    let url = await server.listens()
    const port = new URL(url).port
    const cookie = await connect(url, 'slack', await connect(url, 'hubspot'))
    const saved = await fetch(`${url}/api/notifications/rules`, {
      method: 'POST',
      headers: { Cookie: cookie, 'Content-Type': 'application/json' },
      body: '{"rules":["deal-closed"]}',
    })
    expect(saved.status).toBe(204)

    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      server.child.kill(signal)
      expect(await server.exited).toBe(signal === 'SIGTERM' ? 0 : null)
      server = launch({ PORT: port })
      url = await server.listens()
      expect(await json(`${url}/api/notifications/rules`, cookie)).toEqual({
        rules: ['deal-closed'],
      })
      expect(await json(`${url}/api/hubspot/status`, cookie)).toMatchObject({ connected: true })
      expect(await json(`${url}/api/slack/status`, cookie)).toMatchObject({ connected: true })
    }

    // Only the owner of the data folder can read its key.
    expect((await stat(join(dataDir, 'encryption.key'))).mode & 0o777).toBe(0o600)
  })

  test('lists every wrong setting, and ends', async () => {
    const server = launch({ PORT: 'http', APP_URL: 'nowhere', HUBSPOT_CLIENT_ID: 'id' })
    expect(await server.exited).toBe(1)
    expect(server.output).toMatch(/- PORT/)
    expect(server.output).toMatch(/- APP_URL/)
    expect(server.output).toMatch(/- HUBSPOT_CLIENT_SECRET/)
    expect(server.output).not.toMatch(/\n {4}at /)
  })

  test('says so when its port is taken', async () => {
    const other = createServer()
    other.listen(0)
    await once(other, 'listening')
    const bound = other.address()
    const port = typeof bound === 'object' && bound !== null ? String(bound.port) : ''
    const server = launch({ PORT: port })
    expect(await server.exited).toBe(1)
    expect(server.output).toContain(`Port ${port} is taken`)
    other.close()
  })
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
    dead.child.kill('SIGKILL')
    await dead.exited
    await writeFile(join(dataDir, 'lock.pid'), `${process.pid}\n`)

    const takers = Array.from({ length: 4 }, () => launch())
    const ends = await Promise.all(
      takers.map(async (taker) => {
        const listens = taker.listens().then(
          () => true,
          () => false,
        )
        return { pid: taker.child.pid, listens: await listens }
      }),
    )
    const owners = ends.filter(({ listens }) => listens)
    expect(owners).toHaveLength(1)
    expect((await readFile(join(dataDir, 'lock.pid'), 'utf8')).trim()).toBe(`${owners[0]?.pid}`)
  })
})

describe('a signal', () => {
  /** A HubSpot whose answer the test gives. */
  async function slowHubspot() {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>()
    const outside = createServer((_request, response) => resolve(response))
    outside.listen(0, '127.0.0.1')
    await once(outside, 'listening')
    const bound = outside.address()
    const port = typeof bound === 'object' && bound !== null ? bound.port : 0
    return { url: `http://127.0.0.1:${port}`, called: promise, close: () => outside.close() }
  }

  /** A server that got a signal while a request waits for HubSpot. */
  async function busy(signal: 'SIGTERM' | 'SIGINT') {
    const hubspot = await slowHubspot()
    const server = launch({ HUBSPOT_API_URL: hubspot.url })
    const url = await server.listens()
    const begun = await fetch(`${url}/api/hubspot/auth`, { redirect: 'manual' })
    const state = new URL(begun.headers.get('Location') ?? '').searchParams.get('state')
    const answer = fetch(`${url}/api/hubspot/callback?code=x&state=${state}`, {
      headers: { Cookie: begun.headers.getSetCookie()[0]?.split(';')[0] ?? '' },
    }).catch((error: unknown) => error)
    const response = await hubspot.called
    server.child.kill(signal)
    await server.said(/Stopping/)
    return { hubspot, server, url, answer, response }
  }

  test('SIGTERM lets running requests finish and takes no new ones; exit 0', async () => {
    const { hubspot, server, url, answer, response } = await busy('SIGTERM')
    await expect(fetch(`${url}/health`)).rejects.toThrow()
    response.writeHead(400, { 'Content-Type': 'application/json' })
    response.end('{"status":"BAD_AUTH_CODE"}')
    const finished = await answer
    expect(finished instanceof Response && finished.status).toBe(502)
    const answeredAt = performance.now()
    expect(await server.exited).toBe(0)
    // The client would keep its connection for five seconds; the server does not wait for that.
    expect(performance.now() - answeredAt).toBeLessThan(4_900)
    hubspot.close()
  })

  test('SIGTERM ends the process within ten seconds, whatever clients do', async () => {
    const server = launch()
    const url = await server.listens()
    const head = 'HTTP/1.1\r\nHost: localhost\r\n'
    const manyAnswers = `GET /sandbox/hubspot/deals ${head}\r\n`.repeat(3_000)
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
    const { hubspot, server, answer, response } = await busy('SIGINT')
    // The same signal again at once is one Ctrl-C: it comes from the terminal and from npm.
    server.child.kill('SIGINT')
    server.child.kill('SIGTERM')
    expect(await server.exited).toBe(143)
    await answer
    response.destroy()
    hubspot.close()
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
