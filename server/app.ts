import { sql } from 'drizzle-orm'
import { Hono } from 'hono'
import { methodNotAllowed } from 'hono/method-not-allowed'
import { authorizationRoutes } from './api/authorization.ts'
import { connectionRoutes } from './api/connections.ts'
import { ruleRoutes } from './api/rules.ts'
import type { Database } from './database/open.ts'
import { answerError, errorAnswer } from './http/errors.ts'
import { atOneLoopbackName, corsForDashboard, writesFromDashboardOnly } from './http/origin.ts'
import { securityHeaders } from './http/safety-headers.ts'
import type { Log } from './log.ts'
import { type Dashboard, serveDashboard } from './page/serve.ts'
import { createSessions } from './people/session.ts'
import type { Vault } from './people/vault.ts'
import type { Provider, ProviderId } from './providers/provider.ts'

export interface Dependencies {
  database: Database
  vault: Vault
  providers: Record<ProviderId, Provider>
  /** The origin at which people open the dashboard; without a slash at its end. */
  appUrl: string
  /** The built page; undefined where another host serves it. */
  dashboard: Dashboard | undefined
  /** The stand-ins' pages and APIs, mounted at /sandbox. */
  sandbox: Hono
  /** Where providers tell of events, mounted at /webhooks; none where nothing is relayed. */
  webhooks?: Hono
  /** What `npm run relay` asks, mounted at /relay. */
  operator?: Hono
  now: () => Date
  log: Log
}

/** The whole backend as a function from request to answer; it opens no port and no file. */
export function createApp(dependencies: Dependencies): Hono {
  const { appUrl, dashboard, sandbox, webhooks, operator, now, log } = dependencies
  const https = appUrl.startsWith('https:')
  const sessions = createSessions(dependencies.database, { secure: https, now })
  const app = new Hono()

  app.use(securityHeaders({ https }))
  app.use('/api/*', corsForDashboard(appUrl))
  app.use('/health', corsForDashboard(appUrl))
  app.use(
    methodNotAllowed({
      app,
      onMethodNotAllowed: (c, methods) =>
        errorAnswer(c, 405, 'method_not_allowed', 'This address does not know that method.', {
          Allow: methods.join(', '),
        }),
    }),
  )
  app.use('/api/*', writesFromDashboardOnly(appUrl))

  app.get('/health', async (c) => {
    // Without its database the backend can do nothing, and says so.
    await dependencies.database.execute(sql`select 1`)
    return c.json({ status: 'ok' })
  })
  app.route('/api/notifications/rules', ruleRoutes(dependencies, sessions))
  for (const provider of ['hubspot', 'slack'] as const) {
    app.route(`/api/${provider}`, connectionRoutes(provider, dependencies, sessions))
    app.route(`/api/${provider}`, authorizationRoutes(provider, dependencies, sessions))
  }
  app.route('/sandbox', sandbox)
  if (webhooks !== undefined) app.route('/webhooks', webhooks)
  if (operator !== undefined) app.route('/relay', operator)

  if (dashboard !== undefined) app.all('*', atOneLoopbackName(appUrl), serveDashboard(dashboard))
  app.notFound((c) => errorAnswer(c, 404, 'not_found', 'There is nothing at this address.'))
  app.onError(answerError(log))
  return app
}
