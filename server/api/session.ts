import { Hono, type MiddlewareHandler } from 'hono'
import { personHeader } from '../../contract/endpoints.ts'
import { endSessionCall } from '../../contract/features/sessions.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { isRead } from '../http/origin.ts'
import { nobody } from '../people/session.ts'

export function sessionRoutes({ sessions }: Context) {
  return new Hono().delete(endSessionCall.path, async (c) => {
    if (c.req.query('others') === 'true') await sessions.endOthers(c)
    else await sessions.end(c)
    return c.body(null, 204)
  })
}

/**
 * Refuses a call that changes something if the page that makes it shows another person than the one of the session.
 * Another tab of the browser may have signed in as somebody else, or signed out.
 */
export function writesForShownPersonOnly({ sessions }: Context): MiddlewareHandler {
  return async (c, next) => {
    if (isRead(c.req.method)) return next()
    const session = await sessions.find(c)
    const shown = c.req.header(personHeader)
    // What the call wants is already true.
    const hasEnded =
      session === undefined &&
      c.req.path === endSessionCall.path &&
      c.req.query('others') !== 'true'
    if (shown !== undefined && shown !== (session?.person ?? nobody) && !hasEnded) {
      throw new ApiError(
        409,
        'another_person',
        'This browser has signed in as another person, or has signed out. Load the page again.',
      )
    }
    await next()
  }
}
