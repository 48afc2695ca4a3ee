import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import type { RequestListener, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { Hono } from 'hono'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { everyAnswer, strictTransportSecurity } from '../../contract/page-headers.ts'
import { caddy, nginx } from '../../scripts/programs.ts'
import { safetyHeaders } from '../../server/http/safety-headers.ts'
import { readBuiltPage } from '../../server/page/build.ts'
import { serveDashboard } from '../../server/page/serve.ts'
import { listen } from '../relay/listen.ts'
import { freePort } from '../relay/postgres.ts'
import { launch } from '../server/program.ts'
import { buildPage } from './build-page.ts'
import { startNginx } from './nginx.ts'

const root = resolve(import.meta.dirname, '../..')
let folder: string
let dist: string
let files: string[]
const own = new Hono()

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-hosting-'))
  dist = join(folder, 'dist')
  await buildPage(dist, [], {
    VITE_API_URL: 'https://api.example.com/v1',
    VITE_CONTACT_FORM_URL: 'https://forms.example.com/f/1?x=2',
  })
  files = await readdir(dist, { recursive: true })
  own
    .use(safetyHeaders(strictTransportSecurity()))
    .all('*', serveDashboard(await readBuiltPage(dist)))
}, 60_000)
afterAll(() => rm(folder, { recursive: true }))

const paths = [
  '/',
  '/index.html',
  '/contact',
  '/contact?from=footer',
  '/hubspot/callback?code=1',
  '/no/such/page',
  '/connect/monday.com',
  '/favicon.svg',
  '/robots.txt',
]

/** Some that a proxy passes to the backend. */
const passed = ['/health', '/ready', '/api/slack/status', '/webhooks/hubspot']

/** The headers that make an answer safe, and how long a cache may keep it. */
function safeguards(headers: Headers) {
  const others = ['Content-Security-Policy', 'Strict-Transport-Security', 'Cache-Control']
  const names = [...Object.keys(everyAnswer), ...others]
  return Object.fromEntries(names.map((name) => [name, headers.get(name)]))
}

async function ofOwnServer(path: string) {
  return safeguards((await own.request(path)).headers)
}

/** The lines of a file of the build that are no comments. */
async function linesOf(file: string) {
  const lines = (await readFile(join(dist, file), 'utf8')).split('\n')
  return lines.filter((line) => line.trim() !== '' && !line.startsWith('#'))
}

describe('dist/_headers', () => {
  async function readRules() {
    const blocks = (await linesOf('_headers')).join('\n').split(/\n(?=\/)/)
    return blocks.map((block) => {
      const [path = '', ...lines] = block.split(/\n\s*/)
      return { path, lines }
    })
  }
  /** The lines of all rules that match an address. */
  async function linesAt(address: string) {
    const path = address.split('?')[0] ?? ''
    const rules = (await readRules()).filter((rule) =>
      rule.path.endsWith('*') ? path.startsWith(rule.path.slice(0, -1)) : path === rule.path,
    )
    return rules.flatMap(({ lines }) => lines)
  }
  const split = (line: string) => {
    const colon = line.indexOf(': ')
    return [line.slice(0, colon), line.slice(colon + 2)] as const
  }

  // Hosts read the file in two ways: all matching rules apply, or only the last one.
  const hosts: Record<string, (headers: Headers, line: string) => void> = {
    'that applies all matching rules': (headers, line) => headers.append(...split(line)),
    'that applies the last matching rule': (headers, line) => headers.set(...split(line)),
  }
  describe.each(Object.entries(hosts))('on a host %s', (_, apply) => {
    test.each(paths)('gives %s the headers of our server', async (path) => {
      const headers = new Headers()
      for (const line of await linesAt(path)) apply(headers, line)
      // These hosts decide themselves how long a page is kept; they revalidate each time, as we do.
      const { 'Cache-Control': _ours, ...expected } = await ofOwnServer(path)
      expect(safeguards(headers)).toMatchObject(expected)
    })
  })

  test('lets caches keep the files of the build, and nothing that replaces a missing file', async () => {
    const kept = async (path: string) =>
      (await linesAt(path)).filter((line) => line.startsWith('Cache-Control: '))
    const assets = files.filter((file) => /^assets\/.*\.(js|css)$/.test(file))
    expect(assets.length).toBeGreaterThan(5)
    for (const file of assets) {
      const { 'Cache-Control': ours } = await ofOwnServer(`/${file}`)
      expect(await kept(`/${file}`), file).toEqual([`Cache-Control: ${ours}`])
    }
    for (const path of ['/assets/index-older.js', '/assets/', ...paths]) {
      expect(await kept(path), path).toEqual([])
    }
  })

  test('stays within the limits of the hosts', async () => {
    const rules = await readRules()
    expect(rules.length).toBeLessThanOrEqual(100)
    const longest = Math.max(...rules.flatMap(({ lines }) => lines.map((line) => line.length)))
    expect(longest).toBeLessThan(2000)
  })
})

describe('dist/_redirects', () => {
  async function readRules() {
    return (await linesOf('_redirects')).map((line) => {
      const [from = '', to = '', status] = line.split(' ')
      return { from, to, status: Number(status) }
    })
  }

  // An existing file wins, then the first matching rule (docs.netlify.com/manage/routing/redirects/redirect-options).
  test.each([...paths, '/assets/index-older.js'])(
    'makes Netlify answer %s as our server does',
    async (address) => {
      const path = address.split('?')[0] ?? ''
      const isFile = path === '/' || files.includes(path.slice(1))
      const rule = (await readRules()).find(({ from }) => path.startsWith(from.replace(/\*$/, '')))
      const { status } = await own.request(address)
      expect(isFile ? 200 : rule?.status).toBe(status)
      if (!isFile) expect(rule?.to).toBe('/index.html')
    },
  )

  // It follows a rule even where a file exists (developers.cloudflare.com/pages/configuration/redirects).
  // It ignores a rule with another status than these, and one from everywhere to index.html.
  test('has no rule that Cloudflare Pages would follow', async () => {
    const followed = (await readRules()).filter(
      ({ from, to, status }) =>
        [200, 301, 302, 303, 307, 308].includes(status) &&
        !(from.endsWith('/*') && to === '/index.html'),
    )
    expect(followed).toEqual([])
  })
})

// scripts/test.ts installs nginx where it can, and says so where it cannot.
const program = nginx.find()

describe.skipIf(program === undefined)('nginx with dist/nginx-headers.conf', () => {
  let started: Awaited<ReturnType<typeof startNginx>>
  let backend: Awaited<ReturnType<typeof listen>>
  let isDown = false

  beforeAll(async () => {
    backend = await listen((request, response) => {
      if (isDown) request.destroy()
      response.setHeader('Content-Security-Policy', "default-src 'none'; frame-ancestors 'self'")
      response.end('{}')
    })
    const backendPort = Number(new URL(backend.url).port)
    started = await startNginx(program ?? '', { folder, dist, backendPort })
  }, 180_000)
  afterAll(async () => {
    await started.stop()
    await backend.close()
  })

  test.each(paths)('gives %s the headers of our server', async (path) => {
    const answer = await started.get(path)
    expect(answer.status).toBe(200)
    expect(safeguards(answer.headers)).toEqual(await ofOwnServer(path))
  })

  test('serves the files of the build, and lets caches keep those with a hash in the name', async () => {
    const script = files.find((file) => /index-.*\.js$/.test(file)) ?? ''
    const answer = await started.get(`/${script}`)
    expect(answer.body).toBe(await readFile(join(dist, script), 'utf8'))
    expect(safeguards(answer.headers)).toEqual(await ofOwnServer(`/${script}`))
    const compressed = await started.get(`/${script}`, { 'Accept-Encoding': 'gzip' })
    expect(compressed.headers.get('Content-Encoding')).toBe('gzip')
  })

  test('sends the safety headers with errors too, and lets caches keep none', async () => {
    const internal = ['/.build.json', '/_headers', '/_redirects', '/nginx-headers.conf']
    const forThisMachine = ['/relay/status', '/metrics']
    for (const path of [
      '/assets/old.js',
      '/favicon.ico',
      '/a/b.php',
      ...internal,
      ...forThisMachine,
    ]) {
      const answer = await started.get(path)
      expect(answer.status, path).toBe(404)
      expect(safeguards(answer.headers)).toMatchObject({
        ...everyAnswer,
        'Content-Security-Policy': (await ofOwnServer('/'))['Content-Security-Policy'],
        'Cache-Control': null,
      })
    }
    const etag = (await started.get('/contact')).headers.get('ETag') ?? ''
    const known = await started.get('/contact', { 'If-None-Match': etag })
    expect(known.status).toBe(304)
    expect(safeguards(known.headers)).toEqual(await ofOwnServer('/contact'))
  })

  test('sends HSTS only over https and at an address without a port, and redirects http', async () => {
    const plain = await started.get('/contact', {}, false)
    const { 'Strict-Transport-Security': _, ...expected } = await ofOwnServer('/contact')
    expect(safeguards(plain.headers)).toEqual({ ...expected, 'Strict-Transport-Security': null })
    const atPort = await started.get('/contact', { Host: 'dealbell.example.com:8443' })
    expect(safeguards(atPort.headers)).toEqual({ ...expected, 'Strict-Transport-Security': null })
    const other = await started.get('/contact?a=1', { Host: 'redirect.example.com' }, false)
    expect(other.status).toBe(301)
    expect(other.headers.get('Location')).toBe('https://redirect.example.com/contact?a=1')
  })

  test('adds no header to the answers of the backend', async () => {
    const answer = await started.get('/sandbox/contact-form')
    expect(answer.headers.get('Content-Security-Policy')).toBe(
      "default-src 'none'; frame-ancestors 'self'",
    )
    expect(answer.headers.get('Dealbell')).toBeNull()
  })

  test('sends the safety headers when it answers instead of the backend', async () => {
    isDown = true
    onTestFinished(() => {
      isDown = false
    })
    const expected = { ...(await ofOwnServer('/')), 'Cache-Control': null }
    for (const path of [...passed, '/sandbox/slack']) {
      for (const [length, status] of Object.entries({ 0: 502, 2000000: 413 })) {
        const answer = await started.get(path, { 'Content-Length': length })
        expect([answer.status, answer.body], path).toEqual([status, ''])
        expect(safeguards(answer.headers)).toEqual(expected)
      }
    }
  })
})

test.skipIf(program === undefined)(
  'the short configuration of nginx passes everything on, and keeps inside what is for this machine',
  async () => {
    const backend = await listen(({ url, headers }, response) => {
      response.end(`${url} for ${headers.host} from ${headers['x-forwarded-for']}`)
    })
    const backendPort = Number(new URL(backend.url).port)
    const own = join(folder, 'short')
    await mkdir(own)
    const short = { folder: own, dist, backendPort, isShort: true }
    const started = await startNginx(program ?? '', short)
    const statuses: Record<string, number> = {}
    for (const path of ['/', '/api/slack/status', '/metrics', '/relay/status']) {
      const { status, body } = await started.get(path)
      statuses[path] = status
      if (status === 200) expect(body).toBe(`${path} for dealbell.example.com from 127.0.0.1`)
    }
    expect(statuses).toEqual({
      '/': 200,
      '/api/slack/status': 200,
      '/metrics': 404,
      '/relay/status': 404,
    })
    await started.stop()
    await backend.close()
  },
  180_000,
)

describe.skipIf(program === undefined)('nginx in front of the backend', () => {
  let started: Awaited<ReturnType<typeof startNginx>>
  let backend: Awaited<ReturnType<typeof listen>>
  let answer: RequestListener
  const clients = new Set<TLSSocket>()

  beforeAll(async () => {
    backend = await listen((request, response) => answer(request, response))
    const backendPort = Number(new URL(backend.url).port)
    started = await startNginx(program ?? '', { folder, dist, backendPort })
  }, 180_000)
  afterEach(() => {
    for (const client of clients) client.destroy()
    clients.clear()
  })
  afterAll(async () => {
    await started.stop()
    await backend.close()
  })

  /** A client that never closes its side. @returns what it has received. */
  function open(lines: readonly string[], body = '') {
    const socket = connect({
      ...{ port: started.httpsPort, host: '127.0.0.1', servername: 'dealbell.example.com' },
      ...{ rejectUnauthorized: false, allowHalfOpen: true },
    })
    const client = { socket, received: '' }
    clients.add(socket.setEncoding('utf8'))
    socket.on('error', () => undefined).on('data', (chunk) => (client.received += chunk))
    socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
    return client
  }

  const host = 'Host: dealbell.example.com'
  const soon = { timeout: 30_000 }

  test.each([
    [400, 'another host besides', ['GET / HTTP/1.1', host, 'Host: evil.example']],
    [400, 'no host', ['GET / HTTP/1.1']],
    [400, 'a host that is none', ['GET / HTTP/1.1', 'Host: a b']],
    [400, 'no HTTP', ['hello']],
    [400, 'too long headers', ['GET / HTTP/1.1', host, `X: ${'x'.repeat(70_000)}`]],
    [404, 'a whole URL of this machine', ['GET http://127.0.0.1/metrics HTTP/1.0', host]],
    [
      413,
      'a body over 1 MiB',
      ['POST /webhooks/hubspot HTTP/1.1', host, 'Content-Length: 2000000'],
    ],
  ])('answers %i to %s, with the safety headers', async (status, _, lines) => {
    const client = open(lines)
    await expect.poll(() => client.received, soon).toContain('\r\n\r\n')
    expect(client.received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    for (const name of Object.keys(everyAnswer)) expect(client.received).toContain(`${name}: `)
  })

  test('passes on a request when its body is whole', async () => {
    const bodies: string[] = []
    answer = async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      bodies.push(body)
      response.end()
    }
    const head = ['POST /webhooks/hubspot HTTP/1.1', host, 'Content-Length: 4']
    const slow = open(head, 'ha')
    const whole = open(head, 'all.')
    await expect.poll(() => whole.received, soon).toContain('200 OK')
    expect(bodies).toEqual(['all.'])
    slow.socket.write('lf')
    await expect.poll(() => slow.received, soon).toContain('200 OK')
    expect(bodies).toEqual(['all.', 'half'])
  })

  test('passes on that a user has uninstalled the app, and serves the page at the same address', async () => {
    const told: string[] = []
    answer = async (request, response) => {
      let body = ''
      for await (const chunk of request) body += chunk
      told.push(`${request.method} ${request.url} ${request.headers['x-forwarded-for']} ${body}`)
      response.writeHead(204).end()
    }
    const path = '/pipedrive/callback'
    const page = open([`GET ${path}?code=1 HTTP/1.1`, host])
    await expect.poll(() => page.received, soon).toContain('<title>')
    const head = [`DELETE ${path} HTTP/1.1`, host, 'Content-Length: 2']
    const client = open(head, '{}')
    await expect.poll(() => client.received, soon).toMatch(/^HTTP\/1\.1 204 /)
    expect(told).toEqual([`DELETE ${path} 127.0.0.1 {}`])
  })

  test('takes the whole answer, although its client reads nothing', async () => {
    const taken = vi.fn()
    answer = (_request, response) => response.on('finish', taken).end(Buffer.alloc(20_000_000))
    const { socket } = open(['GET /sandbox/large HTTP/1.1', host])
    socket.pause()
    await expect.poll(() => taken.mock.calls, soon).toHaveLength(1)
  })

  test('refuses more than a hundred requests of one address at a time', async () => {
    const running: ServerResponse[] = []
    answer = (_request, response) => running.push(response)
    const many = Array.from({ length: 110 }, () => open(['GET /health HTTP/1.1', host]))
    const refused = () => many.filter(({ received }) => received.includes(' 429 '))
    await expect.poll(() => [refused().length, running.length], soon).toEqual([10, 100])
    for (const { received } of refused()) {
      for (const name of Object.keys(everyAnswer)) expect(received).toContain(`${name}: `)
    }
    for (const response of running) response.end('fine')
    const served = () => many.filter(({ received }) => received.includes(' 200 '))
    await expect.poll(() => served().length, soon).toBe(100)
  })
})

const caddyProgram = caddy.find()

test.skipIf(caddyProgram === undefined)(
  'Caddy passes every address except those that are for the machine itself',
  async () => {
    const backend = await listen((request, response) => {
      response.end(`${request.url} for ${request.headers['x-forwarded-for']}`)
    })
    const url = `http://127.0.0.1:${await freePort()}`
    // The configuration of docs/hosting.md, with other addresses.
    const docs = await readFile(join(root, 'docs/hosting.md'), 'utf8')
    const site = (/```caddy\n(.*?)```/s.exec(docs)?.[1] ?? '')
      .replace('dealbell.example.com', url)
      .replace('127.0.0.1:3000', new URL(backend.url).host)
    const config = join(folder, 'Caddyfile')
    await writeFile(config, `{\nadmin off\n}\n${site}`)
    const caddy = launch(
      ['run', '--config', config, '--adapter', 'caddyfile'],
      { HOME: folder },
      { program: caddyProgram ?? '' },
    )
    onTestFinished(async () => {
      await caddy.kill()
      await backend.close()
    })
    await caddy.said(/serving initial configuration/)
    for (const path of ['/', ...passed]) {
      expect(await (await fetch(url + path)).text()).toBe(`${path} for 127.0.0.1`)
    }
    for (const path of ['/relay', '/relay/status', '/metrics', '//metrics', '/Relay/status']) {
      expect((await fetch(url + path)).status, path).toBe(404)
    }
  },
)
