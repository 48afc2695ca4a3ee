import { type Server, STATUS_CODES } from 'node:http'
import { RequestError } from '@hono/node-server'
import type { MiddlewareHandler } from 'hono'
import {
  answerPolicy,
  everyAnswer,
  policyWith,
  strictTransportSecurity,
} from '../../contract/page-headers.ts'

/**
 * A stand-in's page: no script, and a form that may lead back to the dashboard. The contact form's
 * page stands in a sandboxed frame without an origin of its own, where 'self' matches nothing, so
 * the origin is written out.
 */
export function standInPolicy(appOrigin: string, { inFrame }: { inFrame: boolean }): string {
  return policyWith({
    'style-src': `'self' ${appOrigin}`,
    'img-src': "'self'",
    'form-action': `'self' ${appOrigin}`,
    'frame-ancestors': inFrame ? "'self'" : "'none'",
  })
}

function headersOfAnswer({ https }: { https: boolean }): Record<string, string> {
  return {
    ...everyAnswer,
    ...(https && { 'Strict-Transport-Security': strictTransportSecurity }),
  }
}

/** Sets the headers that every answer carries; a page brings its own Content-Security-Policy. */
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
  }
}

/**
 * The same for what never reaches the app: no host, an address that is none, no HTTP at all.
 * @returns what answers the first two; the last is answered on the socket.
 */
export function answerUnreadable(
  server: Server,
  site: { https: boolean },
): (error: unknown) => Response {
  const headers = {
    ...headersOfAnswer(site),
    'Content-Security-Policy': answerPolicy,
    'Cache-Control': 'no-store',
  }
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) return socket.destroy()
    const status =
      error.code === 'HPE_HEADER_OVERFLOW'
        ? 431
        : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? 408
          : 400
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    socket.end(
      [
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
        ...lines,
        'Content-Length: 0',
        'Connection: close',
        '\r\n',
      ].join('\r\n'),
    )
  })
  // An expectation that nobody here knows may be ignored (RFC 9110 §10.1.1).
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  return (error) =>
    new Response(null, { status: error instanceof RequestError ? 400 : 500, headers })
}
