import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { cors } from 'hono/cors'

/** Faults of a backend, and the check that names each. */
export const faults = {
  'GET /health is answered with the page': 'GET /health answers a status',
  'connected is a text': 'GET /api/hubspot/status says whether HubSpot is connected',
  'rules is not an array': 'GET /api/notifications/rules answers the rules',
  'auth leads to a log-in page': 'GET /api/slack/auth redirects to Slack',
  'a missing code is answered with 200': 'GET /api/hubspot/callback without a code is an error',
  'unknown addresses are answered with the page': 'an unknown address below /api is an error',
  'answers allow every origin': 'https://dashboard.example may read the answers',
  'preflights forget DELETE': 'https://dashboard.example may send DELETE',
  'the cookie stays on its own site':
    'the browser sends the cookies with every call, and scripts cannot read them',
  'only the first rule is saved': 'POST /api/notifications/rules keeps what is saved',
} as const
export type Fault = keyof typeof faults

export const dashboardOrigin = 'https://dashboard.example'
const page = '<!doctype html><title>Example</title>'

/** A small backend for one user, on another site than its dashboard. Everything secret contains 'secret'. */
export async function openExampleBackend(fault?: Fault) {
  const state = { rules: ['deal-closed'], requests: [] as string[] }
  /** Awaited before a request is answered. */
  const hook: { before?: (request: Request) => Promise<void> | undefined } = {}
  const app = new Hono()

  app.use(async (c, next) => {
    state.requests.push(`${c.req.method} ${c.req.path}`)
    await hook.before?.(c.req.raw)
    await next()
  })
  app.use(
    cors({
      origin: (_origin, c) =>
        fault === 'answers allow every origin' && c.req.method === 'GET' ? '*' : dashboardOrigin,
      credentials: true,
      allowHeaders: ['Content-Type'],
      allowMethods:
        fault === 'preflights forget DELETE' ? ['GET', 'POST'] : ['GET', 'POST', 'DELETE'],
    }),
  )
  app.get('/health', (c) =>
    fault === 'GET /health is answered with the page' ? c.html(page) : c.json({ status: 'up' }),
  )
  app.get('/api/notifications/rules', (c) =>
    c.json({ rules: fault === 'rules is not an array' ? 'deal-closed' : state.rules }),
  )
  app.post('/api/notifications/rules', async (c) => {
    const { rules } = await c.req.json<{ rules: string[] }>()
    state.rules = fault === 'only the first rule is saved' ? rules.slice(0, 1) : rules
    return c.body(null, 204)
  })
  for (const id of ['hubspot', 'slack']) {
    app.get(`/api/${id}/status`, (c) =>
      id === 'hubspot' && fault === 'connected is a text'
        ? c.json({ connected: 'true', of: c.req.header('Cookie') })
        : c.json({ connected: true }),
    )
    app.get(`/api/${id}/auth`, (c) => {
      const sameSite = fault === 'the cookie stays on its own site' ? 'Lax' : 'None'
      c.header('Set-Cookie', `sid=secret-1; Path=/; HttpOnly; Secure; SameSite=${sameSite}`)
      if (id === 'slack' && fault === 'auth leads to a log-in page') return c.redirect('/login')
      const back = encodeURIComponent(`${dashboardOrigin}/${id}/callback`)
      return c.redirect(
        `https://${id}.example/authorize?client_id=1&state=secret-2&redirect_uri=${back}`,
      )
    })
    app.get(`/api/${id}/callback`, (c) =>
      id === 'hubspot' && fault === 'a missing code is answered with 200'
        ? c.json({ error: 'missing code' })
        : c.json({ error: 'missing code' }, 400),
    )
  }
  app.notFound((c) =>
    fault === 'unknown addresses are answered with the page' ? c.html(page) : c.text('', 404),
  )

  const { url, close } = await listen(getRequestListener(app.fetch))
  return { url, close, state, hook }
}

export async function listen(listener: RequestListener) {
  const server = createServer(listener)
  server.listen(0, 'localhost')
  await once(server, 'listening')
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('The server has no port.')
  return {
    url: `http://localhost:${bound.port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
