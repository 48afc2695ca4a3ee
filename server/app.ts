import { sql } from 'drizzle-orm'
import { Hono } from 'hono'
import { methodNotAllowed } from 'hono/method-not-allowed'
import { endpoints } from '../contract/endpoints.ts'
import { authorizationRoutes } from './api/authorization.ts'
import { connectionRoutes } from './api/connections.ts'
import { operatorRoutes } from './api/operator.ts'
import { ruleRoutes } from './api/rules.ts'
import { webhookRoutes } from './api/webhooks.ts'
import type { Context } from './context.ts'
import { answerError, errorAnswer } from './http/errors.ts'
import { atOneLoopbackName, corsForDashboard, writesFromDashboardOnly } from './http/origin.ts'
import { safetyHeaders } from './http/safety-headers.ts'
import { type Dashboard, serveDashboard } from './page/serve.ts'
import { providerIds } from './providers/registry.ts'

/** The whole backend as a function from request to answer. It opens no port and no file. */
export function createApp(
  context: Context,
  { dashboard, sandbox }: { dashboard: Dashboard | undefined; sandbox: Hono },
): Hono {
  const { appUrl, database, sessions, limits, log } = context
  const app = new Hono()

  app.use(safetyHeaders({ https: appUrl.startsWith('https:') }))
  app.use('/api/*', corsForDashboard(appUrl))
  app.use(endpoints.health.path, corsForDashboard(appUrl))
  app.use('/api/*', limits.calls(sessions.issuedHash))
  app.use('/sandbox/*', limits.standIns)
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

  app.get(endpoints.health.path, async (c) => {
    // Without its database the backend can do nothing, so it must not look healthy.
    await database.execute(sql`select 1`)
    return c.json({ status: 'ok' })
  })
  app.route('/', ruleRoutes(context))
  for (const provider of providerIds) {
    app.route('/', connectionRoutes(provider, context))
    app.route('/', authorizationRoutes(provider, context))
  }
  app.route('/sandbox', sandbox)
  app.route('/webhooks', webhookRoutes(context))
  app.route('/relay', operatorRoutes(context))

  if (dashboard !== undefined) app.all('*', atOneLoopbackName(appUrl), serveDashboard(dashboard))
  app.notFound((c) => errorAnswer(c, 404, 'not_found', 'There is nothing at this address.'))
  app.onError(answerError(log))
  return app
}
