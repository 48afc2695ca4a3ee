import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { crmIds, registry } from '../providers/registry.ts'
import { failpoint } from '../relay/failpoint.ts'
import { watchedProperties } from '../relay/rules.ts'

const maxBodyBytes = 1024 * 1024

/** Where each CRM reports changes: one address for all accounts. */
export function webhookRoutes({ providers, inbox, appUrl, now, log }: Context) {
  const routes = new Hono().use(
    bodyLimit({
      maxSize: maxBodyBytes,
      onError: () => {
        throw new ApiError(413, 'too_large', 'The body must not be over 1 MiB.')
      },
    }),
  )
  for (const crm of crmIds) {
    const { name } = registry[crm]
    routes.post(`/${crm}`, async (c) => {
      const body = new Uint8Array(await c.req.arrayBuffer())
      const { pathname, search } = new URL(c.req.url)
      const content = providers[crm].readWebhook(
        {
          method: 'POST',
          url: `${appUrl}${pathname}${search}`,
          header: (header) => c.req.header(header),
          body,
        },
        now().getTime(),
      )
      if (content.kind === 'not signed') {
        throw new ApiError(401, 'invalid_signature', `The request is not signed by ${name}.`)
      }
      failpoint('verified')
      if (content.kind === 'not understood') {
        throw new ApiError(400, 'invalid_body', 'The body must be a JSON array of events.')
      }

      const events = content.events.filter(({ property }) => watchedProperties.has(property))
      await inbox.store(crm, events)
      failpoint('before answer')
      log('webhook stored', { items: content.items, dealEvents: events.length })
      return c.body(null, 204)
    })
  }
  return routes
}
