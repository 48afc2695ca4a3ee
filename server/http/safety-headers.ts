import { type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { RequestError } from '@hono/node-server'
import type { MiddlewareHandler } from 'hono'
import {
  answerPolicy,
  everyAnswer,
  policyWith,
  strictTransportSecurity,
} from '../../contract/page-headers.ts'
import { incomingOf } from './incoming.ts'
import { endAndDestroy } from './socket-limits.ts'

/**
 * The Content-Security-Policy of a stand-in's page. It allows no scripts, except where the page has one: then
 * it allows those of this origin, and their calls. Its forms may lead back to the dashboard. It names the origin,
 * because in the sandboxed frame of the contact form, 'self' matches nothing.
 */
export function standInPolicy(
  appOrigin: string,
  { inFrame, withScript = false }: { inFrame: boolean; withScript?: boolean },
): string {
  return policyWith({
    ...(withScript && { 'script-src': "'self'", 'connect-src': "'self'" }),
    'style-src': `'self' ${appOrigin}`,
    'img-src': "'self'",
    'form-action': `'self' ${appOrigin}`,
    'frame-ancestors': inFrame ? `'self' ${appOrigin}` : "'none'",
  })
}

function headersOfAnswer({ https }: { https: boolean }): Record<string, string> {
  return {
    ...everyAnswer,
    ...(https && { 'Strict-Transport-Security': strictTransportSecurity }),
  }
}

/** Sets the headers of every answer. A page sets its own Content-Security-Policy. */
export function safetyHeaders(site: { https: boolean }): MiddlewareHandler {
  const always = Object.entries(headersOfAnswer(site))
  return async (c, next) => {
    await next()
    const headers = c.res.headers
    if (!headers.has('Content-Security-Policy')) {
      headers.set('Content-Security-Policy', answerPolicy)
    }
    if (!headers.has('Cache-Control')) headers.set('Cache-Control', 'no-store')
    for (const [name, value] of always) headers.set(name, value)
    // The rest of the body would follow on this connection, before the next request.
    if (incomingOf(c)?.complete === false) headers.set('Connection', 'close')
  }
}

/**
 * Answers requests that never reach the app, with the same headers. What is not HTTP is answered on the
 * socket, which is then closed.
 * @returns the options of the app's listener: for requests with a malformed address, and for those of HTTP/1.0 without
 * a host.
 */
export function answerUnreadable(server: Server, site: { https: boolean }) {
  const headers = {
    ...headersOfAnswer(site),
    'Content-Security-Policy': answerPolicy,
    'Cache-Control': 'no-store',
  }
  /** The answers on a connection that are not complete, in the order of their requests. */
  const answers = new WeakMap<Duplex, Set<ServerResponse>>()
  server.on('request', ({ socket }, response) => {
    const running = answers.get(socket) ?? new Set()
    answers.set(socket, running.add(response))
    response.on('close', () => running.delete(response))
  })
  const refused = new WeakSet<Duplex>()
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) return socket.destroy()
    // Node reports each further piece of what it cannot read.
    if (refused.has(socket)) return
    refused.add(socket)
    const running = [...(answers.get(socket) ?? [])]
    // The requests before this one were whole, so the client gets their answers first.
    const last = running.findLast(({ req }) => req.complete)
    if (last === undefined) refuse(error, socket, running)
    else last.on('close', () => refuse(error, socket, running))
  })

  function refuse(error: NodeJS.ErrnoException, socket: Duplex, running: ServerResponse[]): void {
    // An answer may have ended the connection.
    if (!socket.writable) return
    // The client would read this refusal as a part of the answer that it is receiving.
    const isAnswering = running.some((answer) => answer.headersSent && !answer.writableFinished)
    if (isAnswering) {
      socket.destroy()
      return
    }
    const status =
      error.code === 'HPE_HEADER_OVERFLOW'
        ? 431
        : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? 408
          : 400
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    endAndDestroy(
      socket,
      [
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
        ...lines,
        'Content-Length: 0',
        'Connection: close',
        '\r\n',
      ].join('\r\n'),
    )
  }
  // A server may ignore an expectation that it does not know (RFC 9110 §10.1.1).
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  return {
    errorHandler: (error: unknown) =>
      new Response(null, { status: error instanceof RequestError ? 400 : 500, headers }),
    // No host has this name (RFC 2606 §2), so it is neither this machine nor the dashboard.
    hostname: 'no-host.invalid',
  }
}
