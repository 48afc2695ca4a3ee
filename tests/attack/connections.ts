import { connect, type Socket } from 'node:net'
import { attackers } from './requests.ts'

// Connections that cost a client almost nothing and stay open as long as the server allows.

interface Siege {
  name: string
  /** How many connections the attack has opened in all. */
  opened: number
  /** Connections that the server has not ended. */
  live: ReadonlySet<Socket>
  stop(): void
}

/** What one client does with its connection. */
interface Client {
  name: string
  connections: number
  /** What it sends at once. */
  opening?: string | Buffer
  /** What it sends every second. */
  drip?: string
  /** It never reads what the server answers. */
  deaf?: boolean
}

const openedPerSecond = 20
/** A bound for this program's own file descriptors. */
const maxEnded = 500

/** Starts all sieges. @param largestFile the path of a file that the server serves. */
export function startSieges(url: string, largestFile: string): Siege[] {
  const { host } = new URL(url)
  const head = (line: string, ...headers: string[]) =>
    `${[line, `Host: ${host}`, ...headers].join('\r\n')}\r\n`
  const clients: Client[] = [
    { name: 'silent', connections: 200 },
    { name: 'slow headers', connections: 50, opening: head('GET / HTTP/1.1'), drip: 'X: y\r\n' },
    { name: 'not HTTP', connections: 10, opening: 'HELLO\r\n\r\n' },
    {
      name: 'slow readers',
      connections: 50,
      opening: `${head(`GET ${largestFile} HTTP/1.1`)}\r\n`.repeat(100),
      drip: '\r\n',
      deaf: true,
    },
    {
      name: 'slow bodies',
      connections: 50,
      opening: `${head(
        'POST /api/notifications/rules HTTP/1.1',
        'Content-Type: application/json',
        'Content-Length: 60000',
      )}\r\n{"rules":[`,
      drip: ' ',
    },
    { name: 'unfinished webhooks', connections: 350, opening: unfinishedWebhook(head) },
  ]
  return clients.map((client) => startSiege(url, client))
}

/** Headers that only the check of the signature itself refuses, for the next five minutes. */
export function falseSignature(): Record<string, string> {
  return {
    'X-HubSpot-Request-Timestamp': String(Date.now()),
    'X-HubSpot-Signature-v3': `${'A'.repeat(43)}=`,
  }
}

/** 1,000,000 bytes of a body that is announced as slightly longer. */
function unfinishedWebhook(head: (line: string, ...headers: string[]) => string): Buffer {
  const start = head(
    'POST /webhooks/hubspot HTTP/1.1',
    'Content-Type: application/json',
    'Content-Length: 1048576',
    ...Object.entries(falseSignature()).map(([name, value]) => `${name}: ${value}`),
  )
  return Buffer.concat([Buffer.from(`${start}\r\n`), Buffer.alloc(1_000_000, '[')])
}

function startSiege(url: string, { name, connections, opening, drip, deaf }: Client): Siege {
  const { port } = new URL(url)
  const live = new Set<Socket>()
  /** Connections that the server has ended and the client keeps open. */
  const ended = new Set<Socket>()

  function open() {
    const localAddress = attackers[siege.opened % attackers.length]
    siege.opened++
    const socket = connect({
      // `localhost` may be ::1, which an attacking address cannot connect to.
      host: '127.0.0.1',
      port: Number(port),
      localAddress,
      // Otherwise Node closes its side as soon as the server ends the other.
      allowHalfOpen: true,
    })
    live.add(socket)
    if (opening !== undefined) socket.write(opening)
    if (!deaf) socket.resume()
    socket.on('end', () => {
      live.delete(socket)
      ended.add(socket)
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      live.delete(socket)
      ended.delete(socket)
    })
  }

  function tick() {
    if (drip !== undefined) for (const socket of live) socket.write(drip)
    const missing = Math.min(connections - live.size, openedPerSecond, maxEnded - ended.size)
    for (let count = 0; count < missing; count++) open()
  }

  const timer = setInterval(tick, 1_000)
  const siege = {
    name,
    opened: 0,
    live,
    stop() {
      clearInterval(timer)
      for (const socket of [...live, ...ended]) socket.destroy()
    },
  }
  return siege
}
