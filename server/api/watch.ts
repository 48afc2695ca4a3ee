import { createHash, timingSafeEqual } from 'node:crypto'
import { Hono } from 'hono'
import type { Context } from '../context.ts'
import { isFromThisMachine } from '../http/origin.ts'

/** GET /metrics for Prometheus, and GET /ready for load balancers. `/health` is for the dashboard. */
export function watchRoutes({ watch, metricsToken }: Pick<Context, 'watch' | 'metricsToken'>) {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const expected = metricsToken === undefined ? undefined : digest(`Bearer ${metricsToken}`)

  return new Hono()
    .get('/metrics', async (c) => {
      const given = digest(c.req.header('Authorization') ?? '')
      const hasToken = expected !== undefined && timingSafeEqual(given, expected)
      // 404, so that others cannot tell whether it exists.
      if (!hasToken && !isFromThisMachine(c)) return c.notFound()
      return c.body(await watch.metrics(), 200, { 'Content-Type': watch.contentType })
    })
    .get('/ready', async (c) => {
      const failing = await watch.unready()
      return failing.length === 0
        ? c.json({ status: 'ready' })
        : c.json({ status: 'not ready', failing }, 503)
    })
}
