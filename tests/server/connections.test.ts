import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { connect } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { afterEach, expect, test } from 'vitest'
import { answerPolicy, everyAnswer, strictTransportSecurity } from '../../contract/page-headers.ts'
import { answerUnreadable } from '../../server/http/safety-headers.ts'
import { clientTimes, connectionLimit, guardConnections } from '../../server/http/socket-limits.ts'
import { browser, listen, shareHarness } from './harness.ts'

const harness = await shareHarness()
const closers: Array<() => void | Promise<void>> = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

async function serve(
  listener: RequestListener,
  { most = 100, answerWithinMs = 60_000, requestTimeout = 60_000 } = {},
) {
  const times = { headersTimeout: requestTimeout, requestTimeout, connectionsCheckingInterval: 50 }
  const server = createServer({ ...clientTimes(1), ...times })
  const guard = guardConnections(server, { most, answerWithinMs })
  answerUnreadable(server, { https: true })
  server.on('request', listener)
  const port = await listen(server)
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })

  /** A client that never closes its side, and reads only if told to. */
  async function open(text = '', { reads = true, from = '127.0.0.1' } = {}) {
    const options = { port, host: '127.0.0.1', localAddress: from, allowHalfOpen: true }
    const socket = connect(options).setEncoding('utf8')
    const read = () => socket.on('data', (chunk) => (client.received += chunk))
    const end = () => (client.ended = true)
    const client = { socket, read, received: '', ended: false }
    socket
      .on('error', () => undefined)
      .on('end', end)
      .on('close', end)
    if (reads) read()
    await once(socket, 'connect')
    socket.write(text)
    closers.push(() => void socket.destroy())
    return client
  }

  const count = () => new Promise<number>((resolve) => server.getConnections((_, n) => resolve(n)))
  return { server, guard, open, count }
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
const health = get('/health')
const unfinished = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf'
const answerAll: RequestListener = (_request, response) => response.end('fine')
const answerNone: RequestListener = () => undefined

/** Keeps the requests that run, until a test answers them. */
function answerLater() {
  const running: Array<() => void> = []
  const listener: RequestListener = ({ url }, response) =>
    running.push(() => response.end(`answer to ${url}`))
  return { running, listener }
}

test.each([
  ['a silent client', '', '408 Request Timeout'],
  ['headers that do not end', 'GET / HTTP/1.1\r\nHost: x\r\n', '408 Request Timeout'],
  ['a body that does not end', unfinished, '408 Request Timeout'],
  ['no HTTP', 'hello\r\n\r\n', '400 Bad Request'],
  ['too long headers', `GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, '431 Request'],
])(
  '%s is refused with all safety headers and then cut, although the client does not close',
  async (_, text, status) => {
    const { open, count } = await serve(answerNone, { requestTimeout: 200 })
    const client = await open(text)
    await expect.poll(() => client.received, { timeout: 5_000 }).toContain(`HTTP/1.1 ${status}`)
    await expect.poll(count, { timeout: 5_000 }).toBe(0)
    const headers = {
      ...everyAnswer,
      'Content-Security-Policy': answerPolicy,
      'Cache-Control': 'no-store',
      'Strict-Transport-Security': strictTransportSecurity,
      'Content-Length': '0',
      Connection: 'close',
    }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    expect(client.received.split('\r\n').slice(1).toSorted()).toEqual([...lines, '', ''].toSorted())
  },
)

test('a client that does not read its answer is cut, also if it sometimes reads', async () => {
  let answers = 0
  const large: RequestListener = (_request, response) => {
    answers++
    response.end(Buffer.alloc(50_000_000))
  }
  const { open, count } = await serve(large, { answerWithinMs: 500 })
  await open(health, { reads: false })
  const { socket: trickles } = await open(health, { reads: false })
  const timer = setInterval(() => trickles.read(), 10)
  closers.push(() => clearInterval(timer))
  await expect.poll(() => answers, { timeout: 5_000 }).toBe(2)
  await expect.poll(count, { timeout: 5_000 }).toBe(0)
})

test('the idle connection of a proxy outlives all limits, and what proxies keep', async () => {
  const { open } = await serve(answerAll, { requestTimeout: 200, answerWithinMs: 200 })
  const proxy = await open(health)
  await expect.poll(() => proxy.received).toContain('fine')
  const silent = await open()
  const slow = await open(unfinished.slice(0, -20))
  await expect.poll(() => silent.ended && slow.ended, { timeout: 5_000 }).toBe(true)
  proxy.socket.write(health)
  await expect.poll(() => proxy.received.match(/fine/g)).toHaveLength(2)
  // Google's load balancers keep them for 600 s, Caddy for 120 s and nginx for 60 s.
  expect(Number(/Keep-Alive: timeout=(\d+)/.exec(proxy.received)?.[1])).toBeGreaterThan(600)
})

test('a malformed request after valid ones is refused after their answers', async () => {
  const { running, listener } = answerLater()
  const { open, count } = await serve(listener)
  const client = await open(`${['/1', '/2', '/3'].map(get).join('')}nonsense\r\n\r\n`)
  await expect.poll(() => running).toHaveLength(3)
  client.socket.write('more nonsense')
  for (const answer of running) answer()
  await expect.poll(count).toBe(0)
  const answers = client.received.match(/HTTP\/1.1 \d+|answer to .\d/g)
  const each = ['1', '2', '3'].flatMap((n) => ['HTTP/1.1 200', `answer to /${n}`])
  expect(answers).toEqual([...each, 'HTTP/1.1 400'])
})

test('a malformed request after a complete answer is refused', async () => {
  const { open } = await serve(answerAll)
  const client = await open(health)
  await expect.poll(() => client.received).toContain('fine')
  client.socket.write('nonsense\r\n\r\n')
  await expect.poll(() => client.received).toContain('HTTP/1.1 400')
})

test.each([
  ['request', health, 200],
  ['body', 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n', 60_000],
])('a malformed %s during an answer adds nothing to it', async (_, text, answerWithinMs) => {
  const begun: RequestListener = (_request, response) => {
    response.writeHead(200, { 'Content-Length': 100 })
    response.write('half')
  }
  const { open, count } = await serve(begun, { answerWithinMs })
  const client = await open(text)
  await expect.poll(() => client.received).toContain('half')
  client.socket.write('nonsense\r\n\r\n')
  await expect.poll(count).toBe(0)
  expect(client.received).toMatch(/half$/)
})

test('a full server takes a new client in place of one that it waits for', async () => {
  const { open, count } = await serve(answerAll, { most: 3 })
  for (let n = 0; n < 10; n++) await open(n % 2 === 0 ? '' : unfinished)
  const client = await open(health)
  await expect.poll(() => client.received).toMatch(/200 OK[\s\S]*fine/)
  expect(await count()).toBeLessThanOrEqual(3)
})

test('a full server cuts no client that waits for it', async () => {
  const { running, listener } = answerLater()
  const { open, count } = await serve(listener, { most: 3 })
  const clients = await Promise.all([1, 2, 3].map(() => open(health)))
  await expect.poll(() => running).toHaveLength(3)
  const { socket } = await open(health)
  if (!socket.destroyed) await once(socket, 'end')
  expect(await count()).toBe(3)
  for (const answer of running) answer()
  for (const client of clients) await expect.poll(() => client.received).toContain('answer to')
})

// macOS has only the address 127.0.0.1.
test.skipIf(process.platform === 'darwin')(
  'an address whose clients all wait for the server takes no place from another address',
  async () => {
    const { running, listener } = answerLater()
    const { open, count } = await serve(listener, { most: 5 })
    const flood = '127.0.0.2'
    const silent = await open()
    const first = await open(health, { from: flood })
    await expect.poll(() => running).toHaveLength(1)
    const others = await Promise.all([1, 2, 3].map(() => open(health, { from: flood })))
    await expect.poll(() => running).toHaveLength(4)
    const refused = await open(health, { from: flood })
    await expect.poll(() => refused.ended).toBe(true)

    expect(silent.ended).toBe(false)
    silent.socket.write(health)
    await expect.poll(() => running).toHaveLength(5)
    const second = await open(health)
    await expect.poll(() => running).toHaveLength(6)
    await expect.poll(() => first.ended).toBe(true)
    const third = await open(health)
    await expect.poll(() => running).toHaveLength(7)
    // Now the other address has fewer.
    const fourth = await open(health)
    await expect.poll(() => fourth.ended).toBe(true)
    expect(await count()).toBe(5)
    for (const answer of running) answer()
    const answered = (some: typeof others) =>
      some.filter(({ received }) => received.includes('answer to'))
    await expect.poll(() => answered([silent, second, third])).toHaveLength(3)
    await expect.poll(() => answered(others)).toHaveLength(2)
  },
)

test('a stop lets running requests end and waits for no other client', async () => {
  const { running, listener } = answerLater()
  const { guard, open, count } = await serve((request, response) =>
    (request.url === '/slow' ? listener : answerAll)(request, response),
  )
  const slow = await open(get('/slow'))
  await open()
  await open('GET / HTTP/1.1\r\n')
  await open(health)
  await expect.poll(count).toBe(4)
  await expect.poll(() => running).toHaveLength(1)
  const closed = guard.close(60_000)
  await expect.poll(count).toBe(1)
  for (const answer of running) answer()
  await closed
  await expect.poll(() => slow.received).toContain('answer to /slow')
})

test('a stop cuts what does not end in time', async () => {
  let requests = 0
  const large: RequestListener = (request, response) => {
    requests++
    if (request.method === 'GET') response.end(Buffer.alloc(50_000_000))
  }
  const { guard, open, count } = await serve(large)
  await open(health, { reads: false })
  await open(unfinished)
  await expect.poll(() => requests).toBe(2)
  await guard.close(100)
  expect(await count()).toBe(0)
})

test('a body that is refused unread ends its connection, and its sender can read why', async () => {
  const { open } = await serve(getRequestListener(harness.app.fetch))
  const body = 'x'.repeat(20 * 2 ** 20)
  const client = await open(
    `POST /sandbox/contact-form HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n`,
    { reads: false },
  )
  // Many clients read the answer only when they have sent everything.
  await new Promise((resolve) => client.socket.write(body, resolve))
  client.read()
  await once(client.socket, 'end')
  expect(client.received).toMatch(/^HTTP\/1\.1 413 /)
  expect(client.received).toMatch(/^connection: close\r$/im)
  expect(client.received).toContain('too_large')

  const whole = await open(health)
  await expect.poll(() => whole.received).toContain('200 OK')
  expect(whole.received).not.toMatch(/^connection: close/im)
})

test('calls that arrive at once keep no new client from connecting', async () => {
  await browser.connect('hubspot')
  const order: string[] = []
  const app = getRequestListener(harness.app.fetch)
  const { open, server } = await serve((request, response) => {
    response.on('finish', () => order.push('answer'))
    return app(request, response)
  })
  const client = await open()
  server.on('connection', () => order.push('connection'))
  const call = `GET /api/hubspot/status HTTP/1.1\r\nHost: localhost\r\nCookie: ${browser.cookie}\r\n\r\n`
  // So many that they take far more turns than ten connections.
  const calls = 250
  client.socket.write(call.repeat(calls))
  const others = await Promise.all(Array.from({ length: 10 }, () => open(health)))
  for (const { socket } of others) await once(socket, 'data')
  await expect.poll(() => client.received.match(/200 OK/g), { timeout: 30_000 }).toHaveLength(calls)
  const before = order.slice(0, order.lastIndexOf('connection'))
  expect(before.filter((each) => each === 'answer').length).toBeLessThan(calls / 2)
})

test('connections leave files for the database and the providers', () => {
  expect(connectionLimit()).toBeGreaterThan(0)
  expect(connectionLimit()).toBeLessThanOrEqual(1_000)
})
