import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { atMostOnceAMinute, type Log } from '../log.ts'
import { type RequestFault, requestFaults } from '../watch/metrics.ts'
import { alwaysSent } from './safety-headers.ts'

/** Bytes. Browsers keep cookies by host, so those of other programs at this host come here, too. */
export const maxHeaderSize = 64 * 1024

/** What the client gets. Connections above the limit get nothing. */
const answers = {
  headers_too_large: {
    status: 431,
    message:
      'The request has more than 64 KiB of headers. Delete the cookies of this address in the browser, and try again.',
  },
  malformed: { status: 400, message: 'The request could not be read.' },
  too_slow: { status: 408, message: 'The request did not arrive in time.' },
  expectation: {
    status: 417,
    message: 'The request expects something that this server does not know.',
  },
} as const
type Answered = keyof typeof answers

/** How long the client may take to read the answer. */
const lingerMs = 2_000

/**
 * Answers the requests that Node refuses before they are requests of the app: with the safety headers and a sentence.
 * Counts them, and logs each kind at most once a minute.
 * @returns what answers those that Node's adapter refuses.
 */
export function answerFaults(
  server: Server,
  { hsts, log }: { hsts: string | undefined; log: Log },
) {
  const warn = atMostOnceAMinute(log.warn)
  const answered = new WeakSet<Duplex>()
  const underWay = new WeakMap<Duplex, ServerResponse>()

  function count(kind: RequestFault): void {
    requestFaults.inc({ kind })
    warn('request refused', { kind })
  }

  function answerOf(kind: Answered) {
    const { status, message } = answers[kind]
    const body = JSON.stringify({ error: { code: kind, message } })
    const headers = {
      ...alwaysSent(hsts),
      'Content-Type': 'application/json',
      'Content-Length': String(Buffer.byteLength(body)),
      Connection: 'close',
    }
    return { status, headers, body }
  }

  function refuse(socket: Duplex, kind: Answered): void {
    answered.add(socket)
    const { status, headers, body } = answerOf(kind)
    const lines = Object.entries(headers).map((pair) => pair.join(': '))
    const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, '', '']
    socket.end(head.join('\r\n') + body)
    // What still arrives is read until then. If it were not, the client could lose the answer.
    setTimeout(() => socket.destroy(), lingerMs).unref()
  }

  server.on('request', ({ socket }, response) => underWay.set(socket, response))
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) => {
    if (answered.has(socket)) return
    const isHalfAnswered = underWay.get(socket)?.headersSent && !underWay.get(socket)?.writableEnded
    if (code === 'ECONNRESET' || !socket.writable || isHalfAnswered) return void socket.destroy()
    const kind =
      code === 'HPE_HEADER_OVERFLOW'
        ? 'headers_too_large'
        : code === 'ERR_HTTP_REQUEST_TIMEOUT'
          ? 'too_slow'
          : 'malformed'
    // Browsers open connections that they may never use.
    if (!('bytesRead' in socket && socket.bytesRead === 0)) count(kind)
    refuse(socket, kind)
  })
  server.on('checkExpectation', ({ socket }: IncomingMessage) => {
    count('expectation')
    refuse(socket, 'expectation')
  })
  server.on('connect', (_request, socket) => {
    count('malformed')
    refuse(socket, 'malformed')
  })
  server.on('drop', () => count('too_many_connections'))

  return function answerMalformed(): Response {
    count('malformed')
    const { status, headers, body } = answerOf('malformed')
    return new Response(body, { status, headers })
  }
}
