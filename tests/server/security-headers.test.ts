import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { RequestError } from '@hono/node-server'
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { answerPolicy, everyAnswer, pagePolicy } from '../../contract/page-headers.ts'
import { answerUnreadable, safetyHeaders, standInPolicy } from '../../server/http/safety-headers.ts'

// To the letter, and without a server or a database: each line here is one that a browser obeys.
const nothing = [
  "default-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
]
const ours = ["script-src 'self'", "style-src 'self'", "img-src 'self'"]
const lines = (policy: string) => policy.split('; ').toSorted()

describe('the policy', () => {
  const own = { apiUrl: '', contactFormUrl: '/sandbox/contact-form' }
  const other = {
    apiUrl: 'https://api.example.com/dealbell',
    contactFormUrl: 'https://forms.example.com/f/1?x=2',
  }

  test('of what is no page allows nothing', () => {
    expect(lines(answerPolicy)).toEqual(nothing.toSorted())
  })

  test('of a page allows its own files and its backend', () => {
    expect(lines(pagePolicy(own, '/'))).toEqual(
      [...nothing, ...ours, "connect-src 'self'"].toSorted(),
    )
    expect(lines(pagePolicy(other, '/hubspot/callback'))).toEqual(
      [...nothing, ...ours, "connect-src 'self' https://api.example.com"].toSorted(),
    )
  })

  test.each(['/contact', '/contact/', '/CONTACT'])('of %s allows the form besides', (path) => {
    expect(lines(pagePolicy(own, path))).toEqual(
      [...nothing, ...ours, "connect-src 'self'", "frame-src 'self'"].toSorted(),
    )
    expect(lines(pagePolicy(other, path))).toContain('frame-src https://forms.example.com')
  })

  test.each(['/', '/contacts', '/contact/more', '/a/contact', '/contact//'])(
    'of %s allows no frame',
    (path) => {
      expect(pagePolicy(own, path)).not.toContain('frame-src')
    },
  )

  test.each([
    [true, "'self'"],
    [false, "'none'"],
  ])('of a stand-in’s page leads back to the dashboard; in a frame: %s', (inFrame, ancestors) => {
    const changed = [
      "style-src 'self' http://localhost:3000",
      "img-src 'self'",
      "form-action 'self' http://localhost:3000",
      `frame-ancestors ${ancestors}`,
    ]
    const kept = nothing.filter((line) => !/^(form-action|frame-ancestors)/.test(line))
    expect(lines(standInPolicy('http://localhost:3000', { inFrame }))).toEqual(
      [...kept, ...changed].toSorted(),
    )
  })
})

test('no power of the browser is given away, each by its name', () => {
  const denied = everyAnswer['Permissions-Policy'].split(', ')
  expect(denied.length).toBeGreaterThan(30)
  for (const power of denied) expect(power).toMatch(/^[a-z]+(-[a-z]+)*=\(\)$/)
  expect(new Set(denied).size).toBe(denied.length)
  expect(denied).toEqual(
    expect.arrayContaining(['camera=()', 'microphone=()', 'geolocation=()', 'payment=()']),
  )
})

const always = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': everyAnswer['Permissions-Policy'],
}

describe('an answer', () => {
  async function headersOf(https: boolean, own: Record<string, string> = {}) {
    const app = new Hono()
    app.use(safetyHeaders({ https }))
    app.get('/', (c) => c.body(null, 200, own))
    return Object.fromEntries((await app.request('/')).headers)
  }

  test('carries them all, and is kept nowhere', async () => {
    const answer = {
      ...always,
      'content-security-policy': answerPolicy,
      'cache-control': 'no-store',
    }
    expect(await headersOf(false)).toEqual(answer)
    expect(await headersOf(true)).toEqual({
      ...answer,
      'strict-transport-security': 'max-age=63072000; includeSubDomains',
    })
  })

  test('may bring its own policy and its own time to be kept, and nothing else', async () => {
    const own = {
      'Content-Security-Policy': "default-src 'self'",
      'Cache-Control': 'no-cache',
      'Referrer-Policy': 'unsafe-url',
    }
    expect(await headersOf(false, own)).toEqual({
      ...always,
      'content-security-policy': "default-src 'self'",
      'cache-control': 'no-cache',
    })
  })
})

describe('what never reaches the app', () => {
  const server = createServer({ requestTimeout: 300, connectionsCheckingInterval: 50 })
  const unreadable = answerUnreadable(server, { https: true })
  server.on('request', (_request, response) => response.end('reached'))
  beforeAll(async () => {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  afterAll(() => server.close())

  /** What comes back for these bytes, once the server has closed the connection. */
  async function answerTo(text: string): Promise<string> {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.write(text)
    await once(socket, 'close')
    return answer
  }

  test.each([
    ['no HTTP at all', 'hello\r\n\r\n', '400 Bad Request'],
    ['headers beyond measure', `GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, '431 Request'],
    ['a request that is never finished', 'GET / HTTP/1.1\r\nHost: x\r\n', '408 Request Timeout'],
  ])('is answered with them too: %s', async (_name, text, status) => {
    const [head = '', body] = (await answerTo(text)).split('\r\n\r\n')
    const [first, ...rest] = head.split('\r\n')
    expect(first?.startsWith(`HTTP/1.1 ${status}`), first).toBe(true)
    expect(body).toBe('')
    const headers = Object.fromEntries(
      rest.map((line) => {
        const [name = '', value] = line.split(/: (.*)/)
        return [name.toLowerCase(), value]
      }),
    )
    expect(headers).toEqual({
      ...always,
      'strict-transport-security': 'max-age=63072000; includeSubDomains',
      'content-security-policy': answerPolicy,
      'cache-control': 'no-store',
      'content-length': '0',
      connection: 'close',
    })
  })

  test('an expectation that nobody knows is ignored', async () => {
    const text = 'GET / HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\nConnection: close\r\n\r\n'
    expect(await answerTo(text)).toMatch(/^HTTP\/1\.1 200 [\s\S]*reached/)
  })

  test('an address that is none is the caller’s fault, and anything else ours', async () => {
    const theirs = unreadable(new RequestError('Invalid URL'))
    const our = unreadable(new Error('Something broke'))
    expect([theirs.status, our.status]).toEqual([400, 500])
    for (const answer of [theirs, our]) {
      expect(await answer.text()).toBe('')
      expect(Object.fromEntries(answer.headers)).toEqual({
        ...always,
        'strict-transport-security': 'max-age=63072000; includeSubDomains',
        'content-security-policy': answerPolicy,
        'cache-control': 'no-store',
      })
    }
  })
})
