import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import {
  type AddressInfo,
  createServer as createSocketServer,
  type Server as SocketServer,
} from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { getRequestListener, RequestError } from '@hono/node-server'
import type { Context } from 'hono'
import { errorCode, type Log } from '../log.ts'
import { answerFaults, maxHeaderSize } from './faults.ts'

/**
 * Node's own limits, in milliseconds. The proxy in front holds slow clients and many of them (docs/hosting.md#nginx).
 * Node checks the first two once in `connectionsCheckingInterval`.
 * @param trustedProxies how many proxies stand in front.
 */
const times = (trustedProxies: number) =>
  ({
    // A client sends its headers at once. This leaves time to repeat lost packets.
    headersTimeout: 10_000,
    // Enough for a body of 64 KiB at 20 kbit/s.
    requestTimeout: 30_000,
    connectionsCheckingInterval: 1_000,
    // A browser's next call usually follows within a second, and it repeats a call that met the end of its connection.
    // A proxy must not repeat a POST, so it ends idle connections first: Google's load balancers after ten minutes.
    keepAliveTimeout: trustedProxies > 0 ? 620_000 : 5_000,
  }) satisfies ServerOptions

/** The slowest call waits 25 s for a provider. */
const silentMs = 60_000

/** A process must be allowed to open more files than this: the database and the providers need some, too. */
const maxConnections = 1_000

export function createHttpServer({
  trustedProxies,
  ...options
}: {
  trustedProxies: number
  hsts: string | undefined
  log: Log
}) {
  // Node would refuse a request without a host itself. The adapter does so in `serve`.
  const server = createServer({ ...times(trustedProxies), maxHeaderSize, requireHostHeader: false })
  server.timeout = silentMs
  server.maxConnections = maxConnections
  const answerMalformed = answerFaults(server, options)

  const others: SocketServer[] = []
  const running = new Set<ServerResponse>()
  server.on('request', (_request, response) => {
    running.add(response)
    response.on('close', () => running.delete(response))
  })

  return {
    server,
    serve(fetch: (request: Request, env: unknown) => Response | Promise<Response>): void {
      // The app answers its own errors.
      const errorHandler = (error: unknown) =>
        error instanceof RequestError ? answerMalformed() : new Response(null, { status: 500 })
      const strict = getRequestListener(fetch, { errorHandler })
      // HAProxy's health check is HTTP/1.0 and names no host. No host has this name (RFC 2606 §2).
      const lenient = getRequestListener(fetch, { errorHandler, hostname: 'no-host.invalid' })
      server.on('request', (request, response) =>
        (request.httpVersion === '1.0' ? lenient : strict)(request, response),
      )
    },
    /**
     * Listens on each of the hosts. Node's server takes only one, so others hand their connections to it.
     * @param port 0 takes a free one.
     * @returns the port.
     * @throws the error of Node, if one of the addresses is taken or missing. IPv6 may be missing beside IPv4.
     */
    async listen(port: number, [host, ...more]: readonly (string | undefined)[]): Promise<number> {
      server.listen({ port, host })
      await once(server, 'listening')
      const taken = (server.address() as AddressInfo).port
      for (const next of more) {
        const other = createSocketServer((socket) => server.emit('connection', socket))
        other.maxConnections = maxConnections
        try {
          await once(other.listen({ port: taken, host: next }), 'listening')
          others.push(other)
        } catch (error) {
          const code = errorCode(error) ?? ''
          if (['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(code)) continue
          if (port !== 0 || code !== 'EADDRINUSE') throw error
          // The free port of one address is taken at another one.
          for (const each of [server, ...others.splice(0)]) each.close()
          return await this.listen(port, [host, ...more])
        }
      }
      return taken
    },
    /** Takes no new connections and lets running requests end, but cuts them after `graceMs`. */
    async close(graceMs: number): Promise<void> {
      for (const each of [server, ...others]) each.close()
      const end = performance.now() + graceMs
      while (running.size > 0 && performance.now() < end) await delay(20)
      // Browsers keep their connections, and open some that they do not use yet.
      server.closeAllConnections()
    },
  }
}

/** Node's own request; undefined in a test that calls the app without a port. */
export function incomingOf(c: Context): IncomingMessage | undefined {
  // Only Node's adapter sets this, so it has this type.
  return (c.env as { incoming?: IncomingMessage } | undefined)?.incoming
}
