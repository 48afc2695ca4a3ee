import { sql } from 'drizzle-orm'
import { Hono } from 'hono'
import { methodNotAllowed } from 'hono/method-not-allowed'
import { endpoints, type Health } from '../contract/endpoints.ts'
import { featureNames } from '../contract/features.ts'
import { activityRoutes } from './api/activity.ts'
import { addressRoutes, isAddressPath } from './api/address.ts'
import { authorizationRoutes } from './api/authorization.ts'
import { operatorRoutes } from './api/operator.ts'
import { previewRoutes } from './api/preview.ts'
import { ruleRoutes } from './api/rules.ts'
import { sessionRoutes, writesForShownPersonOnly } from './api/session.ts'
import { statusAndDisconnectRoutes } from './api/status-and-disconnect.ts'
import { testMessageRoutes } from './api/test-message.ts'
import { uninstalledRoutes } from './api/uninstalled.ts'
import { watchRoutes } from './api/watch.ts'
import { countWebhooks, webhookRoutes } from './api/webhooks.ts'
import type { Context } from './context.ts'
import { ApiError, answerError, errorAnswer } from './http/errors.ts'
import {
  atOneLoopbackName,
  corsForAll,
  corsForDashboard,
  fromDashboardOnly,
  writesFromDashboardOnly,
} from './http/origin.ts'
import { hstsOf, safetyHeaders } from './http/safety-headers.ts'
import { endWorkers } from './page/end-worker.ts'
import { type Dashboard, serveDashboard } from './page/serve.ts'
import { isAddressId, providerIds, usedOf } from './providers/registry.ts'
import { standInPaths } from './settings/providers.ts'
import { shared } from './watch/watch.ts'

/** The whole backend as a function from request to answer. It opens no port and no file. */
export function createApp(
  context: Context,
  { dashboard, sandbox }: { dashboard: Dashboard | undefined; sandbox: Hono },
): Hono {
  const { appUrl, database, limits, log } = context
  const app = new Hono()
  const standIns = standInPaths(context)

  app.use(safetyHeaders(hstsOf(context)))
  app.use(endWorkers)
  app.use('/webhooks/*', countWebhooks(context))
  app.use('/api/*', corsForDashboard(appUrl))
  app.use(endpoints.health.path, corsForAll)
  app.use('/api/*', limits.calls)
  app.use('/sandbox/*', limits.standIns)
  app.use(
    methodNotAllowed({
      app,
      onMethodNotAllowed: (c, methods) =>
        errorAnswer(c, 405, 'method_not_allowed', 'This address does not allow this method.', {
          Allow: methods.join(', '),
        }),
    }),
  )
  const fromOwnPage = fromDashboardOnly(new URL(context.apiUrl).origin)
  const fromDashboard = writesFromDashboardOnly(appUrl)
  app.use('/api/*', (c, next) =>
    c.req.method === 'POST' && isAddressPath(c.req.path)
      ? fromOwnPage(c, next)
      : fromDashboard(c, next),
  )
  app.use('/api/*', writesForShownPersonOnly(context))

  // The dashboard waits ten seconds for it.
  const isAnswered = shared(async () => await database.execute(sql`select 1`), log)
  app.get(endpoints.health.path, async (c) => {
    // Without its database, the backend cannot work, so the health check must fail.
    if ((await isAnswered()) === undefined) {
      throw new ApiError(500, 'internal', 'The database does not answer.')
    }
    return c.json({ status: 'ok', features: [...featureNames], standIns, appUrl } satisfies Health)
  })
  app.route('/', ruleRoutes(context))
  app.route('/', sessionRoutes(context))
  app.route('/', activityRoutes(context))
  app.route('/', previewRoutes(context))
  app.route('/', testMessageRoutes(context))
  for (const provider of usedOf(context.providers, providerIds)) {
    app.route('/', statusAndDisconnectRoutes(provider, context))
    app.route('/', authorizationRoutes(provider, context))
    if (isAddressId(provider)) app.route('/', addressRoutes(provider, context))
  }
  app.route('/sandbox', sandbox)
  app.route('/webhooks', webhookRoutes(context))
  app.route('/', uninstalledRoutes(context))
  app.route('/relay', operatorRoutes(context))
  app.route('/', watchRoutes(context))

  if (dashboard !== undefined) app.all('*', atOneLoopbackName(appUrl), serveDashboard(dashboard))
  app.notFound((c) => errorAnswer(c, 404, 'not_found', 'There is nothing at this address.'))
  app.onError(answerError(log))
  return app
}
