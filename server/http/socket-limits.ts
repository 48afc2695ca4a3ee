import { once } from 'node:events'
import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { networkOf } from './rate-limit.ts'

/**
 * How long a client may take, in milliseconds. Node checks the first two once in `connectionsCheckingInterval`.
 * @param trustedProxies how many proxies stand in front.
 */
export const clientTimes = (trustedProxies: number) =>
  ({
    // A client sends its headers at once. This leaves time to repeat lost packets.
    headersTimeout: 10_000,
    // Enough for a body of 64 KiB at 20 kbit/s.
    requestTimeout: 30_000,
    connectionsCheckingInterval: 1_000,
    // A browser's next call usually follows within a second, and it repeats a call that met the end of its connection.
    // A proxy must not repeat a POST, so it ends idle connections first: Google's load balancers after ten minutes.
    keepAliveTimeout: trustedProxies > 0 ? 620_000 : 5_000,
    // The app refuses a request without a host itself, because Node would leave out the safety headers.
    requireHostHeader: false,
  }) satisfies ServerOptions

/**
 * From the headers of a request to the last byte of its answer. The slowest call waits 25 s for a
 * provider. Then a phone with 100 kbit/s takes 25 s to load the largest file.
 */
const defaultAnswerMs = 60_000

/** An address with this share of all connections cannot displace silent connections of other addresses. */
const largestShare = 1 / 4

/** How long a refused client may take to read the refusal. */
const lingerMs = 1_000

/** The request that came last on a connection, and its answer. */
interface Exchange {
  request: IncomingMessage
  response: ServerResponse
}

interface Client {
  /** As `networkOf` names it. */
  address: string
  /** Undefined before the first request, and after each answer. */
  exchange?: Exchange | undefined
}

export interface Connections {
  /** Takes no new connections and lets running requests end, but cuts them after `graceMs`. */
  close(graceMs: number): Promise<void>
}

/**
 * Bounds how many connections are open, and how long an answer may take.
 * @param most When so many are open, a new connection takes the place of one that waits for its client. If all
 * wait for the server, it takes the place of one of the address that has the most.
 * Without such a bound, silent clients use up the files that the process may open.
 */
export function guardConnections(
  server: Server,
  { most, answerWithinMs = defaultAnswerMs }: { most: number; answerWithinMs?: number },
): Connections {
  /** The least recently used first. */
  const connections = new Map<Socket, Client>()
  let closing = false

  // Nothing may be silent for longer than an answer may take.
  server.timeout = answerWithinMs

  server.on('connection', (socket: Socket) => {
    const address = networkOf(socket.remoteAddress ?? '') ?? 'unknown'
    if (connections.size >= most && !makeRoomFor(address)) {
      socket.destroy()
      return
    }
    connections.set(socket, { address })
    socket.on('close', () => connections.delete(socket))
    // Node calls this after an answer with `Connection: close`. Closing at once would reset the
    // connection of a client that still sends, and it might lose the answer (RFC 9112 §9.6).
    const destroySoon = socket.destroySoon.bind(socket)
    let ending = false
    socket.destroySoon = () => {
      if (ending) return
      if (connections.get(socket)?.exchange?.request.complete !== false) return destroySoon()
      ending = true
      // From here on nobody parses what arrives.
      socket.removeAllListeners('data').on('data', () => undefined)
      endAndDestroy(socket)
      socket.resume()
    }
  })

  server.on('request', (request, response) => {
    const { socket } = request
    const client = connections.get(socket)
    if (client !== undefined) {
      client.exchange = { request, response }
      // Insert it again, as the most recently used.
      connections.delete(socket)
      connections.set(socket, client)
    }
    const deadline = setTimeout(() => socket.destroy(), answerWithinMs).unref()
    response.on('close', () => {
      clearTimeout(deadline)
      // A client may have sent its next request before this answer.
      if (client?.exchange?.response === response) client.exchange = undefined
      // A browser keeps its connection open after the answer. That must not delay the stop.
      if (closing) socket.destroySoon()
    })
  })

  /** @returns false if the new connection must go, because it would take too much from other addresses. */
  function makeRoomFor(address: string): boolean {
    let own = 0
    for (const client of connections.values()) if (client.address === address) own++
    const socket = silentOne(own < most * largestShare ? undefined : address) ?? waitingOne(own)
    if (socket === undefined) return false
    connections.delete(socket)
    socket.destroy()
    return true
  }

  /** A connection that waits for its client; if there is an `address`, one of this address. */
  function silentOne(address?: string): Socket | undefined {
    for (const [socket, client] of connections) {
      const mayEnd = address === undefined || client.address === address
      if (mayEnd && waitsForClient(socket, client)) return socket
    }
    return undefined
  }

  /** The connection that has waited the longest, of the address that has the most, if it has more than `own`. */
  function waitingOne(own: number): Socket | undefined {
    const ofAddress = Map.groupBy(connections, ([, { address }]) => address)
    const [largest = []] = [...ofAddress.values()].sort((a, b) => b.length - a.length)
    return largest.length > own ? largest[0]?.[0] : undefined
  }

  return {
    async close(graceMs) {
      closing = true
      const closed = once(server, 'close')
      server.close()
      // Node closes only connections that were used before.
      for (const [socket, { exchange }] of connections) {
        if (exchange === undefined) socket.destroy()
      }
      const deadline = setTimeout(() => {
        for (const socket of connections.keys()) socket.destroy()
      }, graceMs)
      await closed
      clearTimeout(deadline)
    },
  }
}

/** The client is silent, still sends, or does not read. */
function waitsForClient(socket: Socket, { exchange }: Client): boolean {
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
