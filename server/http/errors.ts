import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { errorCode, errorFields, type Log } from '../log.ts'
import { incomingOf } from './server.ts'

/**
 * An error for the caller: a status, a code that does not change, and a sentence without secrets.
 */
export class ApiError extends Error {
  readonly status: ContentfulStatusCode
  readonly code: string

  constructor(status: ContentfulStatusCode, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

/** What a caller learns of an error of our own. */
export const internalError = () =>
  new ApiError(500, 'internal', 'Something went wrong on the server.')

/** SQLSTATE disk_full. A CRM repeats a webhook that is answered with 5xx. */
const diskFull = '53100'

export function answerError(log: Log) {
  return (error: Error, c: Context): Response => {
    if (error instanceof ApiError) return errorAnswer(c, error.status, error.code, error.message)
    if (error instanceof HTTPException && error.status < 500) {
      return errorAnswer(c, error.status, 'bad_request', 'The request could not be read.')
    }
    // The client went away before it had sent everything. Nobody reads this answer.
    const incoming = incomingOf(c)
    if (incoming?.complete === false && incoming.destroyed) {
      return errorAnswer(c, 400, 'aborted', 'The request ended early.')
    }
    log.error('request failed', {
      method: c.req.method,
      route: c.req.routePath,
      ...errorFields(error),
    })
    if (errorCode(error) === diskFull) {
      const message = 'The server has no room to store anything. Try again later.'
      return errorAnswer(c, 503, 'no_room', message, { 'Retry-After': '60' })
    }
    const { status, code, message } = internalError()
    return errorAnswer(c, status, code, message)
  }
}

export function errorAnswer(
  c: Context,
  status: ContentfulStatusCode,
  code: string,
  message: string,
  headers?: Record<string, string>,
): Response {
  return c.json({ error: { code, message } }, status, headers)
}
