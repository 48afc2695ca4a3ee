import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Harness, openHarness } from './harness.ts'

// What can be seen only on a real connection.
let harness: Harness
let server: Server
let port: number
beforeAll(async () => {
  harness = await openHarness()
  server = createServer(getRequestListener(harness.app.fetch))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const bound = server.address()
  port = typeof bound === 'object' && bound !== null ? bound.port : 0
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await harness.close()
})
beforeEach(() => {
  harness.logged.length = 0
})

/** Sends lines as they are; resolves to the whole answer. */
async function send(...lines: string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write([...lines, 'Connection: close', '', ''].join('\r\n'))
  let answer = ''
  for await (const chunk of socket) answer += chunk
  return answer
}

test('two hosts are refused, with the headers of every answer', async () => {
  const host = `Host: localhost:${port}`
  for (const other of ['Host: evil.example', 'HOST: evil.example', host]) {
    const answer = await send('GET /health HTTP/1.1', host, other)
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer).toMatch(/^x-content-type-options: nosniff\r$/im)
    expect(answer).toMatch(/^content-security-policy: .*default-src 'none'/im)
    expect(answer).toContain('The request names two hosts.')
  }
  expect(await send('GET /health HTTP/1.1', host)).toMatch(/^HTTP\/1\.1 200 /)
})

describe('the address of the operator', () => {
  const host = 'Host: 127.0.0.1:3000'
  const ask = async (...lines: string[]) => {
    const answer = await send('GET /relay/status HTTP/1.1', ...lines)
    return Number(answer.match(/^HTTP\/1\.1 (\d+) /)?.[1])
  }

  test.each([host, 'Host: localhost:3000', 'Host: [::1]:3000'])(
    'is known on this machine: %s',
    async (own) => {
      // The token is missing.
      expect(await ask(own)).toBe(401)
    },
  )

  test.each([
    'X-Forwarded-For: 203.0.113.9',
    'Forwarded: for=203.0.113.9',
    'X-Real-IP: 203.0.113.9',
    'Via: 1.1 proxy',
  ])('is unknown behind a proxy: %s', async (header) => {
    expect(await ask(host, header)).toBe(404)
  })

  test('is unknown by the public name, which a proxy without headers passes on', async () => {
    expect(await ask('Host: dealbell.example')).toBe(404)
  })

  test.each([
    ['203.0.113.9', '192.0.2.1', 404],
    ['::ffff:203.0.113.9', '::ffff:192.0.2.1', 404],
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

test('a client that goes away in the middle of its body is not logged as a failure', async () => {
  const handled = vi.fn()
  server.once('request', (_request, response) => response.once('close', handled))
  const socket = connect(port, '127.0.0.1')
  socket.write(
    [
      'POST /webhooks/hubspot HTTP/1.1',
      'Host: localhost',
      // Without the form of a signature, the server would not read the body.
      `X-HubSpot-Signature-v3: ${'A'.repeat(43)}=`,
      `X-HubSpot-Request-Timestamp: ${harness.clock.now.getTime()}`,
      'Content-Length: 1000',
      '',
      '{"half":',
    ].join('\r\n'),
  )
  await once(server, 'request')
  socket.destroy()
  await vi.waitFor(() => expect(handled).toHaveBeenCalled())
  // Another request is answered after whatever the first one caused.
  expect(await send('GET /health HTTP/1.1', 'Host: localhost')).toMatch(/ 200 /)
  expect(harness.logged).toEqual([])
})
