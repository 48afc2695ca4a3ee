import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pagePolicy } from '../../contract/page-headers.ts'
import { answerUnreadable } from '../../server/http/safety-headers.ts'
import { readDashboard } from '../../server/page/serve.ts'
import { appUrl, type Harness, openHarness } from './harness.ts'

let folder: string
let harness: Harness
let app: Harness['app']
let broken: Harness['app']
let secure: Harness['app']

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-headers-'))
  await mkdir(join(folder, 'assets'))
  await writeFile(join(folder, 'index.html'), '<!doctype html><title>Dealbell</title>')
  await writeFile(join(folder, 'assets/main-abc.js'), 'console.log(1)')
  await writeFile(join(folder, 'favicon.svg'), '<svg/>')
  harness = await openHarness()
  const origins = { apiUrl: '', contactFormUrl: 'https://forms.example.com/f/1?x=2' }
  const dashboard = await readDashboard(folder, (path) => pagePolicy(origins, path))
  const change = { dashboard }
  app = harness.appWith(change)
  secure = harness.appWith({ ...change, appUrl: 'https://dealbell.example' })
  const database = new Proxy(harness.database, {
    get() {
      throw new Error('The database is gone.')
    },
  })
  broken = harness.appWith({ ...change, database })
})
afterAll(async () => {
  await harness.close()
  await rm(folder, { recursive: true })
})

function directives(headers: Headers): Map<string, string> {
  const policy = headers.get('Content-Security-Policy') ?? ''
  return new Map(
    policy.split('; ').map((directive) => {
      const space = directive.indexOf(' ')
      return [directive.slice(0, space), directive.slice(space + 1)]
    }),
  )
}

/** What must hold of an answer, whatever it is. */
function expectSafe(headers: Headers) {
  const policy = directives(headers)
  expect(policy.get('default-src')).toBe("'none'")
  expect(policy.get('base-uri')).toBe("'none'")
  expect(policy.get('require-trusted-types-for')).toBe("'script'")
  expect(policy.get('trusted-types')).toBe("'none'")
  expect(policy.get('frame-ancestors')).toBe("'none'")
  expect(headers.get('Content-Security-Policy')).not.toMatch(/unsafe-|\*|data:|blob:|https?:(?!\/)/)
  expect(headers.get('X-Content-Type-Options')).toBe('nosniff')
  expect(headers.get('Referrer-Policy')).toBe('no-referrer')
  expect(headers.get('Cross-Origin-Opener-Policy')).toBe('same-origin')
  expect(headers.get('Cross-Origin-Resource-Policy')).toBe('same-origin')
  for (const power of [
    'camera',
    'microphone',
    'geolocation',
    'payment',
    'usb',
    'display-capture',
  ]) {
    expect(headers.get('Permissions-Policy')?.split(', ')).toContain(`${power}=()`)
  }
}

const json = { 'Content-Type': 'application/json', 'Sec-Fetch-Site': 'same-origin' }
const saveAs = (body: string, headers: Record<string, string> = json) => ({
  method: 'POST',
  headers,
  body,
})
const kinds: [number, string, RequestInit?][] = [
  [200, '/'],
  [200, '/contact'],
  [200, '/no/such/page'],
  [200, '/', { method: 'HEAD' }],
  [405, '/', { method: 'POST' }],
  [302, 'http://127.0.0.1:3000/contact'],
  [200, '/favicon.svg'],
  [200, '/assets/main-abc.js'],
  [404, '/assets/main-old.js'],
  [200, '/health'],
  [404, '/health', { method: 'HEAD' }],
  [405, '/health', { method: 'POST' }],
  [200, '/api/hubspot/status'],
  [200, '/api/notifications/rules'],
  [302, '/api/hubspot/auth'],
  [400, '/api/hubspot/callback?code=1'],
  [400, '/api/notifications/rules', saveAs('{')],
  [403, '/api/notifications/rules', saveAs('{}', { Origin: 'https://evil.example' })],
  [413, '/api/notifications/rules', saveAs(`"${'x'.repeat(65 * 1024)}"`)],
  [415, '/api/notifications/rules', saveAs('{}', { 'Sec-Fetch-Site': 'same-origin' })],
  [404, '/api/nonsense'],
  [405, '/api/hubspot/status', { method: 'DELETE', headers: json }],
  [404, '/webhooks/nonsense'],
  [200, '/sandbox/style.css'],
  [404, '/sandbox/nonsense'],
]

describe('every answer is safe', () => {
  test.each(kinds)('%i %s %j', async (status, path, init) => {
    const answer = await app.request(path, init)
    // What HEAD gives where only GET is known is not the question here.
    if (init?.method !== 'HEAD') expect(answer.status).toBe(status)
    expectSafe(answer.headers)
    expect(answer.headers.get('Strict-Transport-Security')).toBeNull()
    expect(answer.headers.get('Cache-Control')).not.toBeNull()
  })

  test('304, too', async () => {
    for (const path of ['/', '/contact', '/assets/main-abc.js']) {
      const etag = (await app.request(path)).headers.get('ETag') ?? ''
      const answer = await app.request(path, { headers: { 'If-None-Match': etag } })
      expect(answer.status).toBe(304)
      expectSafe(answer.headers)
    }
  })

  test('500, too', async () => {
    const answer = await broken.request('/health')
    expect(answer.status).toBe(500)
    expectSafe(answer.headers)
  })

  test('an answer to the dashboard on another origin, too', async () => {
    const headers = { Origin: appUrl, 'Access-Control-Request-Method': 'POST' }
    const answer = await app.request('/api/notifications/rules', { method: 'OPTIONS', headers })
    expect(answer.status).toBe(204)
    expectSafe(answer.headers)
  })

  test('what is no page may load nothing at all', async () => {
    for (const path of ['/health', '/api/hubspot/status', '/api/nonsense', '/assets/old.js']) {
      const policy = directives((await app.request(path)).headers)
      expect(
        [...policy].filter(([name, sources]) => name.endsWith('-src') && sources !== "'none'"),
      ).toEqual([])
    }
  })
})

test.each(kinds)('on https every answer says so for two years: %i %s %j', async (_, path, init) => {
  const { headers } = await secure.request(path, init)
  expect(headers.get('Strict-Transport-Security')).toBe('max-age=63072000; includeSubDomains')
})

describe('the page', () => {
  test('may use its own files and its own backend, and nothing else', async () => {
    expect(Object.fromEntries(directives((await app.request('/')).headers))).toEqual({
      'default-src': "'none'",
      'script-src': "'self'",
      'style-src': "'self'",
      'img-src': "'self'",
      'connect-src': "'self'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'frame-ancestors': "'none'",
      'require-trusted-types-for': "'script'",
      'trusted-types': "'none'",
    })
  })

  test.each(['/contact', '/contact/', '/Contact', '/contact?from=footer'])(
    'may frame the form at %s',
    async (path) => {
      const { headers } = await app.request(path)
      expect(directives(headers).get('frame-src')).toBe('https://forms.example.com')
    },
  )

  test.each([
    '/',
    '/index.html',
    '/contact/us',
    '/contacts',
    '/a/contact',
    '/hubspot/callback?next=/contact',
    '/connect/hubspot',
    '//contact',
    '/assets/main-abc.js',
  ])('may frame nothing at %s', async (path) => {
    const { headers } = await app.request(`${appUrl}${path}`)
    expect(directives(headers).has('frame-src')).toBe(false)
  })

  test('may call the backend where the settings say it is', () => {
    const policy = pagePolicy(
      { apiUrl: 'https://api.example.com/v1', contactFormUrl: '/f' },
      '/contact',
    )
    expect(policy).toContain("connect-src 'self' https://api.example.com;")
    expect(policy).toContain("frame-src 'self'")
  })
})

test('a stand-in’s page may send its form here and back, and only the contact form may be framed', async () => {
  const form = await app.request('/sandbox/contact-form')
  expect(directives(form.headers).get('frame-ancestors')).toBe("'self'")
  expect(directives(form.headers).get('form-action')).toBe(`'self' ${appUrl}`)
  expect(directives(form.headers).has('script-src')).toBe(false)
  expect(directives(form.headers).get('trusted-types')).toBe("'none'")

  const begun = await app.request('/api/hubspot/auth')
  const consent = await app.request(new URL(begun.headers.get('Location') ?? '').pathname)
  expect(consent.headers.get('Content-Type')).toContain('text/html')
  expectSafe(consent.headers)
})

describe('what never reaches the app is answered safely, too', () => {
  let server: Server
  let port: number

  beforeAll(async () => {
    server = createServer({ maxHeaderSize: 4096 })
    const errorHandler = answerUnreadable(server, { https: true })
    server.on('request', getRequestListener(secure.fetch, { errorHandler }))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    port = typeof address === 'object' && address !== null ? address.port : 0
  })
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  /** Sends bytes as they are and reads the answer's head. */
  async function send(text: string): Promise<{ status: number; headers: Headers }> {
    const socket = connect(port, '127.0.0.1')
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.write(text)
    await once(socket, 'close')
    const [statusLine = '', ...lines] = (answer.split('\r\n\r\n')[0] ?? '').split('\r\n')
    const headers = new Headers(
      lines.map((line): [string, string] => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon), line.slice(colon + 1).trim()]
      }),
    )
    return { status: Number(statusLine.split(' ')[1]), headers }
  }

  const end = 'Connection: close\r\n\r\n'
  test.each([
    [400, 'no HTTP', 'nonsense\r\n\r\n'],
    [400, 'no host', `GET / HTTP/1.0\r\n${end}`],
    [400, 'a host that is none', `GET / HTTP/1.1\r\nHost: a b\r\n${end}`],
    [400, 'an address that is none', `GET /\\evil HTTP/1.1\r\nHost: localhost\r\n${end}`],
    [
      431,
      'headers without an end',
      `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(8000)}\r\n\r\n`,
    ],
    [
      200,
      'an unknown expectation',
      `GET / HTTP/1.1\r\nHost: localhost\r\nExpect: a-miracle\r\n${end}`,
    ],
    [405, 'an unknown method', `PROPFIND / HTTP/1.1\r\nHost: localhost\r\n${end}`],
    [405, 'TRACE', `TRACE / HTTP/1.1\r\nHost: localhost\r\n${end}`],
  ])('%i: %s', async (status, _, text) => {
    const answer = await send(text)
    expect(answer.status).toBe(status)
    expectSafe(answer.headers)
    expect(answer.headers.get('Strict-Transport-Security')).toMatch(/^max-age=63072000/)
  })
})
