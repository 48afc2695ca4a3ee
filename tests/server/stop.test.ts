import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createHttpServer } from '../../server/http/server.ts'
import { listen } from './harness.ts'

async function serve(listener: RequestListener) {
  const { server, close } = createHttpServer(1)
  server.on('request', listener)
  const port = await listen(server)
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })

  /** A client that never closes its side, and reads only if told to. */
  async function open(text = '', { reads = true } = {}) {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).setEncoding('utf8')
    const client = { received: '' }
    socket.on('error', () => undefined)
    if (reads) socket.on('data', (chunk) => (client.received += chunk))
    await once(socket, 'connect')
    socket.write(text)
    onTestFinished(() => void socket.destroy())
    return client
  }

  const count = () => new Promise<number>((resolve) => server.getConnections((_, n) => resolve(n)))
  return { close, open, count }
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
const unfinished = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf'

test('a stop lets running requests end and waits for no other client', async () => {
  const running: Array<() => void> = []
  const { close, open, count } = await serve((request, response) => {
    if (request.url === '/slow') running.push(() => response.end('the end'))
    else response.end('fine')
  })
  const slow = await open(get('/slow'))
  await open()
  await open('GET / HTTP/1.1\r\n')
  const idle = await open(get('/health'))
  await expect.poll(() => idle.received, { timeout: 10_000 }).toContain('fine')
  await expect.poll(() => running, { timeout: 10_000 }).toHaveLength(1)
  const closed = close(60_000)
  for (const answer of running) answer()
  await closed
  await expect.poll(() => slow.received, { timeout: 10_000 }).toContain('the end')
  await expect.poll(count, { timeout: 10_000 }).toBe(0)
})

test('a stop cuts what does not end in time', async () => {
  let requests = 0
  const { close, open, count } = await serve((request, response) => {
    requests++
    if (request.method === 'GET') response.end(Buffer.alloc(50_000_000))
  })
  await open(get('/'), { reads: false })
  await open(unfinished)
  await expect.poll(() => requests, { timeout: 10_000 }).toBe(2)
  await close(100)
  await expect.poll(count, { timeout: 10_000 }).toBe(0)
})
