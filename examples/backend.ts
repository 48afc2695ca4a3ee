// A backend for the dashboard: it answers all calls of the specification, §7, and keeps everything in memory.
// docs/backend.md says how to run it.
import { randomUUID } from 'node:crypto'
import { serve } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import { cors } from 'hono/cors'
import { csrf } from 'hono/csrf'
import { createMiddleware } from 'hono/factory'

export interface User {
  connected: Set<string>
  rules: string[]
  /** What the service must return after the consent. */
  expected?: { service: string; code: string; state: string }
}

/** A cache could answer another user, or say what was true yesterday. */
const keepNothing = createMiddleware(async (c, next) => {
  await next()
  c.header('Cache-Control', 'no-store')
})

/**
 * @param dashboard the origin of the dashboard.
 * @param users by the session's cookie.
 */
export function createExample(dashboard: string, users = new Map<string, User>()) {
  const userOf = (c: Context) => users.get(getCookie(c, 'sid') ?? '')
  const refuse = (c: Context, message: string) => c.json({ error: { message } }, 400)
  // On https, the dashboard may be on another site. Browsers take SameSite=None only with Secure.
  const toOtherSites = { secure: true, sameSite: 'None' } as const
  const cookie = dashboard.startsWith('https:') ? toOtherSites : ({ sameSite: 'Lax' } as const)

  return new Hono()
    .use(cors({ origin: dashboard, credentials: true }))
    .use(csrf({ origin: dashboard }))
    .use(keepNothing)
    .get('/health', (c) => c.json({ status: 'ok' }))

    .get('/api/notifications/rules', (c) => c.json({ rules: userOf(c)?.rules ?? [] }))
    .post('/api/notifications/rules', async (c) => {
      const user = userOf(c)
      const { rules } = await c.req.json().catch(() => ({}))
      if (user === undefined) return refuse(c, 'Connect the services first.')
      if (!Array.isArray(rules)) return refuse(c, 'rules must be an array.')
      user.rules = rules
      return c.body(null, 204)
    })

    .get('/api/:service{hubspot|slack}/status', (c) =>
      c.json({ connected: userOf(c)?.connected.has(c.req.param('service')) ?? false }),
    )
    .get('/api/:service{hubspot|slack}/auth', (c) => {
      const service = c.req.param('service')
      const [code, state] = [randomUUID(), randomUUID()]
      let user = userOf(c)
      if (user === undefined) {
        const sid = randomUUID()
        setCookie(c, 'sid', sid, { path: '/', httpOnly: true, ...cookie })
        user = { connected: new Set(), rules: [] }
        users.set(sid, user)
      }
      user.expected = { service, code, state }
      // Redirect to the consent page of the service, which redirects to this page. Here, everybody consents.
      return c.redirect(`${dashboard}/${service}/callback?code=${code}&state=${state}`)
    })
    .get('/api/:service{hubspot|slack}/callback', (c) => {
      const user = userOf(c)
      const { code, state } = c.req.query()
      const service = c.req.param('service')
      const { expected } = user ?? {}
      // Without the comparison of `state`, a foreign site could connect its own account.
      if (!user || expected?.service !== service || expected.state !== state) {
        return refuse(c, 'This connection was not begun here. Click Connect again.')
      }
      delete user.expected
      // Exchange the code for tokens here.
      if (code !== expected.code) return refuse(c, 'The code is not valid. Click Connect again.')
      user.connected.add(service)
      return c.body(null, 204)
    })
    .delete('/api/:service{hubspot|slack}/disconnect', (c) => {
      userOf(c)?.connected.delete(c.req.param('service'))
      return c.body(null, 204)
    })
}

if (import.meta.main) {
  const { PORT = '4000', DASHBOARD = 'http://localhost:5173' } = process.env
  serve({ fetch: createExample(DASHBOARD).fetch, port: Number(PORT) }, ({ port }) => {
    console.log(
      `The example listens on http://localhost:${port} for the dashboard at ${DASHBOARD}.`,
    )
  })
}
