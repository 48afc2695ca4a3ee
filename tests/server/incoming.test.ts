import { connect } from 'node:net'
import { afterAll, describe, expect, test } from 'vitest'
import { createHttpServer } from '../../server/http/server.ts'
import { logTo } from '../../server/log.ts'
import { requestFaults } from '../../server/watch/metrics.ts'
import { listen, shareHarness } from './harness.ts'

// What can be seen only on a real connection.
const harness = await shareHarness()
const logged: { level: unknown; event: unknown; kind?: unknown }[] = []
const log = logTo((level, event, fields) => void logged.push({ level, event, ...fields }))
const { server, serve } = createHttpServer({ trustedProxies: 0, hsts: undefined, log })
serve(harness.app.fetch)
const port = await listen(server)
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

/** Sends lines as they are; resolves to the whole answer. */
async function send(...lines: string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write([...lines, 'Connection: close', '', ''].join('\r\n'))
  let answer = ''
  for await (const chunk of socket) answer += chunk
  return answer
}

const health = 'GET /health HTTP/1.1'
const host = 'Host: localhost:3000'
/** So many cookies of 3.9 kB, as a browser sends them. */
const cookies = (count: number) => [
  `Cookie: ${Array.from({ length: count }, (_, n) => `other${n}=${'x'.repeat(3_900)}`).join('; ')}`,
]

test.each([
  [200, 'one host', [health, host]],
  // As HAProxy asks.
  [200, 'HTTP/1.0 without a host', ['GET /health HTTP/1.0']],
  [405, 'an unknown method', ['PROPFIND /health HTTP/1.1', host]],
  [405, 'a method that no app may see', ['TRACE /health HTTP/1.1', host]],
  [400, 'the asterisk', ['OPTIONS * HTTP/1.1', host]],
])('%i answers %s, with the safety headers', async (status, _, lines) => {
  const answer = await send(...lines)
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  expect(answer).toMatch(/^x-content-type-options: nosniff\r$/im)
  expect(answer).toMatch(/^content-security-policy: .*default-src 'none'/im)
})

// Node, or its adapter, refuses these before any code of the app runs.
const faults: [number, string, string, string[]][] = [
  [400, 'malformed', 'no host', [health]],
  [400, 'malformed', 'a host that is none', [health, 'Host: a b']],
  // In the URL of a request, \ means /. A proxy that hides /relay passes it on.
  [400, 'malformed', 'an address that is none', ['GET /api/..\\relay/status HTTP/1.1', host]],
  [400, 'malformed', 'what is no HTTP', ['\x16\x03\x01']],
  [400, 'malformed', 'a header without a name', [health, host, ': x']],
  [
    400,
    'malformed',
    'two lengths',
    ['POST /health HTTP/1.1', host, 'Content-Length: 1', 'Content-Length: 2'],
  ],
  [400, 'malformed', 'CONNECT', ['CONNECT example.com:443 HTTP/1.1', host]],
  [417, 'expectation', 'an expectation', [health, host, 'Expect: more']],
  [431, 'headers_too_large', 'cookies of 70 kB', [health, host, ...cookies(18)]],
  [431, 'headers_too_large', 'an address of 70 kB', [`GET /${'a'.repeat(70_000)} HTTP/1.1`, host]],
]

test.each(faults)(
  '%i %s answers %s in words, with the safety headers, and is counted',
  async (status, kind, _, lines) => {
    const before = await countOf(kind)
    const answer = await send(...lines)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [A-Z]`))
    expect(answer).toMatch(/^x-content-type-options: nosniff\r$/im)
    expect(answer).toMatch(/^content-security-policy: .*default-src 'none'/im)
    expect(answer).toMatch(/^cache-control: no-store\r$/im)
    expect(JSON.parse(answer.split('\r\n\r\n')[1] ?? '')).toEqual({
      error: { code: kind, message: expect.stringMatching(/^[A-Z].+\.$/) },
    })
    expect(await countOf(kind)).toBe(before + 1)
  },
)

const countOf = async (kind: string) =>
  (await requestFaults.get()).values.find((one) => one.labels.kind === kind)?.value ?? 0

test('a request that does not arrive is answered in words, and a connection too many is counted', async () => {
  const before = [await countOf('too_slow'), await countOf('too_many_connections')]
  const { headersTimeout, maxConnections } = server
  server.headersTimeout = 1
  const socket = connect(port, '127.0.0.1')
  socket.write(`${health}\r\n`)
  let answer = ''
  for await (const chunk of socket) answer += chunk
  expect(answer).toMatch(/^HTTP\/1\.1 408 [\s\S]+ did not arrive in time\./)
  Object.assign(server, { headersTimeout, maxConnections: 0 })
  expect(await send(health, host).catch(() => '')).toBe('')
  server.maxConnections = maxConnections ?? 0
  const after = [await countOf('too_slow'), await countOf('too_many_connections')]
  expect(after).toEqual(before.map((count) => count + 1))
})

test('such faults fill no log: each kind is logged once a minute', async () => {
  for (const [, , , lines] of faults) await send(...lines)
  const kinds = logged.map((line) => line.kind)
  expect(kinds).toEqual([...new Set(kinds)])
  expect(kinds).toEqual(expect.arrayContaining(faults.map(([, kind]) => kind)))
  for (const line of logged) expect(line).toMatchObject({ level: 'warn', event: 'request refused' })
})

test('takes 60 kB of other programs’ cookies, and a request to change the protocol', async () => {
  expect(await send(health, host, ...cookies(15))).toMatch(/^HTTP\/1\.1 200 /)
  expect(await send(health, host, 'Upgrade: h2c')).toMatch(/^HTTP\/1\.1 200 /)
})

describe('the address of the operator', () => {
  // Where it is known, the token is missing.
  test.each([
    [401, ['Host: 127.0.0.1:3000']],
    [401, [host]],
    [404, [host, 'X-Forwarded-For: 203.0.113.9']],
    [404, [host, 'Forwarded: for=203.0.113.9']],
    [404, [host, 'Via: 1.1 proxy']],
    // A proxy without headers passes on the public name.
    [404, ['Host: dealbell.example']],
  ])('is known only on this machine: %i for %j', async (status, headers) => {
    const answer = await send('GET /relay/status HTTP/1.1', ...headers)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  })

  test.each(['/relay/status', '/metrics'])('is not %s for who names no host', async (target) => {
    expect(await send(`GET ${target} HTTP/1.0`)).toMatch(/^HTTP\/1\.1 404 /)
  })

  test.each([
    ['203.0.113.9', '192.0.2.1', 404],
    // Other machines whose addresses contain one of this machine.
    ['10.127.0.1', '192.0.2.1', 404],
    ['::10', '::2', 404],
    ['127.0.0.1', '127.0.0.1', 401],
    ['::ffff:127.0.0.1', '::ffff:127.0.0.1', 401],
    ['::1', '::1', 401],
    ['192.0.2.1', '192.0.2.1', 401],
  ])('asked from %s at %s answers %i', async (remoteAddress, localAddress, status) => {
    const env = { incoming: { rawHeaders: [], socket: { remoteAddress, localAddress } } }
    const answer = await harness.app.request('/relay/status', {}, env)
    expect(answer.status).toBe(status)
  })
})
