import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'

// A process starts in seconds, and in many when the machine is busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

let dataDir: string
const running = new Set<ChildProcess>()

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'dealbell-data-'))
})
afterEach(async () => {
  for (const child of running) {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  await rm(dataDir, { recursive: true, force: true })
})

/** A real server process; `said` resolves when its output has the text. */
function launch(env: Record<string, string> = {}) {
  const startedAt = performance.now()
  const child = spawn(process.execPath, ['server/main.ts'], {
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
    return { code: child.exitCode, signal: child.signalCode, ms: performance.now() - startedAt }
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
    const cookie = await connect(url, 'hubspot')
    await connect(url, 'slack', cookie)
    const saved = await fetch(`${url}/api/notifications/rules`, {
      method: 'POST',
      headers: { Cookie: cookie, 'Content-Type': 'application/json' },
      body: '{"rules":["deal-closed"]}',
    })
    expect(saved.status).toBe(204)

    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      server.child.kill(signal)
      expect((await server.exited).code).toBe(signal === 'SIGTERM' ? 0 : null)
      server = launch({ PORT: port })
      url = await server.listens()
      expect(await json(`${url}/api/notifications/rules`, cookie)).toEqual({
        rules: ['deal-closed'],
      })
      expect(await json(`${url}/api/hubspot/status`, cookie)).toMatchObject({ connected: true })
      expect(await json(`${url}/api/slack/status`, cookie)).toMatchObject({ connected: true })
    }

    // The tokens' text is in no file of the folder, and the key is its owner's alone.
    const keyPath = join(dataDir, 'encryption.key')
    expect((await stat(keyPath)).mode & 0o777).toBe(0o600)
    for (const entry of await readdir(dataDir, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const bytes = await readFile(join(entry.parentPath, entry.name))
      for (const token of ['xoxb-stand-in', 'hubspot-stand-in-', cookie.split('=')[1] ?? '-']) {
        expect(bytes.includes(token), `${token} in ${entry.name}`).toBe(false)
      }
    }

    // Another key does not open what is stored, so the start is refused.
    server.child.kill('SIGTERM')
    await server.exited
    const locked = launch({ ENCRYPTION_KEY: Buffer.alloc(32, 3).toString('base64') })
    expect((await locked.exited).code).toBe(1)
    expect(locked.output).toContain('ENCRYPTION_KEY does not open 2 of 2')
    const ownKey = (await readFile(keyPath, 'utf8')).trim()
    const rotated = launch({
      ENCRYPTION_KEY: `${Buffer.alloc(32, 3).toString('base64')},${ownKey}`,
    })
    await rotated.listens()
  })

  test('lists all that is wrong with its settings, and ends', async () => {
    const server = launch({ PORT: 'http', APP_URL: 'nowhere', HUBSPOT_CLIENT_ID: 'id' })
    expect((await server.exited).code).toBe(1)
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
    expect((await server.exited).code).toBe(1)
    expect(server.output).toContain(`Port ${port} is taken`)
    other.close()
  })
})

describe('the data folder', () => {
  test('is one process’s: a second one names the first and ends within two seconds', async () => {
    const first = launch()
    await first.listens()
    const second = launch()
    const { code, ms } = await second.exited
    expect(code).toBe(1)
    expect(ms).toBeLessThan(2_000)
    expect(second.output).toContain(`process ${first.child.pid}`)
    expect(second.output).not.toMatch(/\n {4}at /)
    // The first is not disturbed.
    expect((await fetch(`${await first.listens()}/health`)).status).toBe(200)
  })

  test('is taken over from a dead process, though its pid is another’s now', async () => {
    const first = launch()
    await first.listens()
    first.child.kill('SIGKILL')
    await first.exited
    await writeFile(join(dataDir, 'lock.pid'), `${process.pid}\n`)
    const second = launch()
    await second.listens()
    expect((await readFile(join(dataDir, 'lock.pid'), 'utf8')).trim()).toBe(`${second.child.pid}`)
  })

  test('is one process’s also when four start at once after a crash', async () => {
    const dead = launch()
    await dead.listens()
    dead.child.kill('SIGKILL')
    await dead.exited

    const takers = Array.from({ length: 4 }, () => launch())
    const ends = await Promise.all(
      takers.map((taker) =>
        Promise.race([
          taker.listens().then(() => 'listens'),
          taker.exited.then(() => 'ended'),
        ]).catch(() => 'ended'),
      ),
    )
    expect(ends.sort()).toEqual(['ended', 'ended', 'ended', 'listens'])
  })
})

describe('a signal', () => {
  /** A HubSpot that answers when the test lets it. */
  async function slowHubspot() {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>()
    const outside = createServer((_request, response) => resolve(response))
    outside.listen(0, '127.0.0.1')
    await once(outside, 'listening')
    const bound = outside.address()
    const port = typeof bound === 'object' && bound !== null ? bound.port : 0
    return { url: `http://127.0.0.1:${port}`, called: promise, close: () => outside.close() }
  }

  /** A server with a request under way that waits for HubSpot. */
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

  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s lets running requests finish and takes no new ones; exit 0',
    async (signal) => {
      const { hubspot, server, url, answer, response } = await busy(signal)
      await expect(fetch(`${url}/health`)).rejects.toThrow()
      response.writeHead(400, { 'Content-Type': 'application/json' })
      response.end('{"status":"BAD_AUTH_CODE"}')
      const finished = await answer
      expect(finished instanceof Response && finished.status).toBe(502)
      const answeredAt = performance.now()
      expect((await server.exited).code).toBe(0)
      // The client keeps its connection for five seconds; that is not waited for.
      expect(performance.now() - answeredAt).toBeLessThan(3_000)
      hubspot.close()
    },
  )

  test('of a second kind ends it at once', async () => {
    const { hubspot, server, answer, response } = await busy('SIGTERM')
    // The same signal again within a moment is one Ctrl-C that npm passed on.
    server.child.kill('SIGTERM')
    server.child.kill('SIGINT')
    expect((await server.exited).code).toBe(130)
    await answer
    response.destroy()
    hubspot.close()
  })
})
