// When a user uninstalls the app in the CRM, the CRM calls the app's redirect URI with DELETE. That is also the address
// of a page. Where another host serves the page and does not pass DELETE on, the next check finds the uninstall.

import { and, eq, inArray } from 'drizzle-orm'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import type { Context } from '../context.ts'
import { connections, users } from '../database/schema.ts'
import { ApiError } from '../http/errors.ts'
import { atMostOnceAMinute } from '../log.ts'
import { ofIdentity } from '../people/identity.ts'
import { checkSoon } from '../people/refusals.ts'
import { crmIds, registry, usedOf } from '../providers/registry.ts'

/** Anyone can send here. The body of a CRM has four short fields. */
const maxBodyBytes = 16 * 1024

export function uninstalledRoutes({ database, providers, log }: Context) {
  const routes = new Hono()
  const warn = atMostOnceAMinute(log.warn)
  const limitBody = bodyLimit({
    maxSize: maxBodyBytes,
    onError: () => {
      throw new ApiError(413, 'too_large', 'The body must not be over 16 KiB.')
    },
  })
  for (const crm of usedOf(providers, crmIds)) {
    const { uninstalledBy } = providers[crm]
    if (uninstalledBy === undefined) continue
    routes.delete(pathOf(navigations.callbackPage, crm), limitBody, async (c) => {
      const body = new Uint8Array(await c.req.arrayBuffer())
      const by = uninstalledBy({ header: (name) => c.req.header(name), body })
      if (by === undefined) {
        warn('uninstall refused', { provider: crm })
        throw new ApiError(401, 'invalid_secret', `The request is not from ${registry[crm].name}.`)
      }
      const { accountId, accountUserId } = by
      const who = database
        .select({ id: users.id })
        .from(users)
        .where(ofIdentity(providers, { crm, crmAccountId: accountId, crmUserId: accountUserId }))
      // It may be late or a copy: the user may have connected again. A refresh shows whether the app is installed.
      await checkSoon(
        database,
        and(eq(connections.provider, crm), inArray(connections.userId, who)),
      )
      log('uninstall told', { provider: crm })
      return c.body(null, 204)
    })
  }
  return routes
}
