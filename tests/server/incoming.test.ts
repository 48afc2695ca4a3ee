import { connect } from 'node:net'
import { afterAll, describe, expect, test } from 'vitest'
import { createHttpServer } from '../../server/http/server.ts'
import { listen, shareHarness } from './harness.ts'

// What can be seen only on a real connection.
const harness = await shareHarness()
const { server, serve } = createHttpServer(0)
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

test.each([
  [200, 'one host', [health, host]],
  // As HAProxy asks.
  [200, 'HTTP/1.0 without a host', ['GET /health HTTP/1.0']],
  [405, 'an unknown method', ['PROPFIND /health HTTP/1.1', host]],
])('%i answers %s, with the safety headers', async (status, _, lines) => {
  const answer = await send(...lines)
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  expect(answer).toMatch(/^x-content-type-options: nosniff\r$/im)
  expect(answer).toMatch(/^content-security-policy: .*default-src 'none'/im)
})

test.each([
  ['no host', [health]],
  ['a host that is none', [health, 'Host: a b']],
  // In the URL of a request, \ means /. A proxy that hides /relay passes it on.
  ['an address that is none', ['GET /api/..\\relay/status HTTP/1.1', host]],
])('400 answers %s', async (_, lines) => {
  expect(await send(...lines)).toMatch(/^HTTP\/1\.1 400 /)
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
