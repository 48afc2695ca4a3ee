import { Hono } from 'hono'
import { extraEndpoints } from '../../contract/endpoints.ts'
import type { Context } from '../context.ts'

/** Signing out: of this browser, or with `others=true` of all others. */
export function sessionRoutes({ sessions }: Context) {
  return new Hono().delete(extraEndpoints.endSession.path, async (c) => {
    if (c.req.query('others') === 'true') await sessions.endOthers(c)
    else await sessions.end(c)
    return c.body(null, 204)
  })
}
