import { once } from 'node:events'
import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** How long a client may take, in milliseconds. Node checks the first two once in `connectionsCheckingInterval`. */
export const clientTimes = {
  // A client sends its headers at once. This leaves time to repeat lost packets.
  headersTimeout: 10_000,
  // Enough for a body of 64 KiB at 20 kbit/s.
  requestTimeout: 30_000,
  connectionsCheckingInterval: 1_000,
  // A browser's next call usually follows within a second. Node tells clients this time.
  keepAliveTimeout: 5_000,
  // The app refuses a request without a host itself, because Node would leave out the safety headers.
  requireHostHeader: false,
} as const satisfies ServerOptions

/**
 * From the headers of a request to the last byte of its answer. The slowest call waits 25 s for a
 * provider. Then a phone with 100 kbit/s takes 25 s to load the largest file.
 */
const defaultAnswerMs = 60_000

/** How long a refused client may take to read the refusal. */
const lingerMs = 1_000

/** What happens on a connection: the request that came last, and its answer. */
interface Exchange {
  request: IncomingMessage
  response: ServerResponse
}

export interface Connections {
  /** Takes no new connections and lets running requests end, but cuts them after `graceMs`. */
  close(graceMs: number): Promise<void>
}

/**
 * Bounds how many connections are open, and how long an answer may take.
 * @param most When so many are open, a new connection takes the place of one that waits for its client.
 * Without such a bound, silent clients use up the files that the process may open.
 */
export function guardConnections(
  server: Server,
  { most, answerWithinMs = defaultAnswerMs }: { most: number; answerWithinMs?: number },
): Connections {
  /** The least recently used first. */
  const connections = new Map<Socket, Exchange | undefined>()
  let closing = false

  // Nothing may be silent for longer than an answer may take.
  server.timeout = answerWithinMs

  server.on('connection', (socket: Socket) => {
    if (connections.size >= most && !makeRoom()) {
      socket.destroy()
      return
    }
    connections.set(socket, undefined)
    socket.on('close', () => connections.delete(socket))
    // Node calls this after an answer with `Connection: close`. Closing at once would reset the
    // connection of a client that still sends, and it might lose the answer (RFC 9112 §9.6).
    const destroySoon = socket.destroySoon.bind(socket)
    let ending = false
    socket.destroySoon = () => {
      if (ending) return
      if (connections.get(socket)?.request.complete !== false) return destroySoon()
      ending = true
      // From here on nobody parses what arrives.
      socket.removeAllListeners('data').on('data', () => undefined)
      endAndDestroy(socket)
      socket.resume()
    }
  })

  server.on('request', (request, response) => {
    const { socket } = request
    // Insert it again, as the most recently used.
    if (connections.delete(socket)) connections.set(socket, { request, response })
    const deadline = setTimeout(() => socket.destroy(), answerWithinMs).unref()
    response.on('close', () => {
      clearTimeout(deadline)
      // A client may have sent its next request before this answer.
      if (connections.get(socket)?.response === response) connections.set(socket, undefined)
      // A browser keeps its connection open after the answer. That must not delay the stop.
      if (closing) socket.destroySoon()
    })
  })

  /** @returns false if every connection waits for this server. */
  function makeRoom(): boolean {
    for (const [socket, exchange] of connections) {
      if (!waitsForClient(socket, exchange)) continue
      connections.delete(socket)
      socket.destroy()
      return true
    }
    return false
  }

  return {
    async close(graceMs) {
      closing = true
      const closed = once(server, 'close')
      server.close()
      // Node closes only connections that were used before.
      for (const [socket, exchange] of connections) if (exchange === undefined) socket.destroy()
      const deadline = setTimeout(() => {
        for (const socket of connections.keys()) socket.destroy()
      }, graceMs)
      await closed
      clearTimeout(deadline)
    },
  }
}

/** The client is silent, still sends, or does not read. */
function waitsForClient(socket: Socket, exchange: Exchange | undefined): boolean {
  return exchange === undefined || !exchange.request.complete || socket.writableLength > 0
}

/** Sends the last bytes of a connection and closes it soon, also if the client does not. */
export function endAndDestroy(socket: Duplex, lastBytes = ''): void {
  socket.end(lastBytes)
  const deadline = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(deadline))
}

/**
 * How many connections may be open: half of the files that the process may open. The other half is for
 * the database and the providers.
 */
export function connectionLimit(): number {
  // Windows has no such limit. 1,000 connections serve some 150 browsers that load a page at this moment.
  return Math.min(1_000, Math.floor(openFilesLimit() / 2))
}

function openFilesLimit(): number {
  // Without this, the report looks up the names of connected addresses. The types do not know it.
  Object.assign(process.report, { excludeNetwork: true })
  // The types do not describe the report either.
  const report = process.report.getReport() as {
    userLimits?: { open_files?: { soft?: number | string } }
  }
  const limit = report.userLimits?.open_files?.soft
  // 'unlimited' is a text.
  return typeof limit === 'number' ? limit : Number.POSITIVE_INFINITY
}
