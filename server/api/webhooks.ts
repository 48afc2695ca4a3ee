// The beginning of an event's way. Gets the request of a webhook, refuses it if its signature is wrong, and gives the
// events of properties that a rule is about to the inbox (relay/receive/). Answers 204 only after they are stored: the
// CRM repeats a webhook that gets a 5xx or no answer.

import { Hono, type MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { atMostOnceAMinute } from '../log.ts'
import type { WebhookRefusal } from '../providers/provider.ts'
import { type CrmId, crmIds, registry, usedOf } from '../providers/registry.ts'
import { watchedProperties } from '../relay/decide/rules.ts'
import { failpoint } from '../relay/failpoint.ts'
import { TooManyEvents } from '../relay/receive/inbox.ts'
import { countWebhook, eventsNotUnderstood } from '../watch/metrics.ts'

const maxBodyBytes = 1024 * 1024
/** As old as a signature may be: so far may clocks be apart. */
const mostAheadMs = 5 * 60_000

/** Whoever types the address into a form may add a slash. A CRM may sign the address that it calls. */
const pathsOf = (crm: CrmId) => [`/${crm}`, `/${crm}/`]

/** Counts what becomes of webhooks. Those that are not signed are counted where the reason is known. */
export function countWebhooks({ providers, log }: Context): MiddlewareHandler {
  const used = usedOf(providers, crmIds)
  const warn = atMostOnceAMinute(log.warn)
  return async (c, next) => {
    const startedAt = performance.now()
    await next()
    if (c.req.method !== 'POST') return
    const { status } = c.res
    const crm = used.find((id) => pathsOf(id).includes(c.req.path.replace('/webhooks', '')))
    if (crm === undefined) {
      warn('webhooks refused', { reason: 'address' })
      for (const id of used) countWebhook(id, 'address')
    } else if (status === 204) countWebhook(crm, 'stored', startedAt)
    else if (status >= 500 || status === 429) countWebhook(crm, 'failed')
    else if (status !== 401) countWebhook(crm, 'malformed')
  }
}

export function webhookRoutes({ providers, inbox, apiUrl, now, log }: Context) {
  const routes = new Hono()
  const warn = atMostOnceAMinute(log.warn)
  const tell = atMostOnceAMinute(log)
  const limitBody = bodyLimit({
    maxSize: maxBodyBytes,
    onError: () => {
      throw new ApiError(413, 'too_large', 'The body must not be over 1 MiB.')
    },
  })
  for (const crm of usedOf(providers, crmIds)) {
    const { name } = registry[crm]
    const notSigned = (why: WebhookRefusal) => {
      warn('webhooks refused', { reason: why })
      countWebhook(crm, why)
      return new ApiError(401, 'invalid_signature', `The request is not signed by ${name}.`)
    }

    // Anyone can send here, so read no body that cannot be signed.
    const refuseUnsigned: MiddlewareHandler = async (c, next) => {
      const refusal = providers[crm].webhookRefusal((name) => c.req.header(name), now().getTime())
      if (refusal !== undefined) throw notSigned(refusal)
      await next()
    }

    routes.on('POST', pathsOf(crm), refuseUnsigned, limitBody, async (c) => {
      const header = (name: string) => c.req.header(name)
      const body = new Uint8Array(await c.req.arrayBuffer())
      const { pathname, search } = new URL(c.req.url)
      const content = providers[crm].readWebhook(
        { method: 'POST', url: `${apiUrl}${pathname}${search}`, header, body },
        now().getTime(),
      )
      if (content.kind === 'not signed') throw notSigned(content.why)
      if (content.kind === 'not understood') {
        throw new ApiError(400, 'invalid_body', 'The body does not have the documented form.')
      }

      const { items, notUnderstood } = content
      const events = content.events.filter(({ property }) => watchedProperties.has(property))
      // A made-up one would stand first in the activity until then. To move it to now would give a real one, of a clock
      // that differs, another time than the search finds.
      const latestMs = now().getTime() + mostAheadMs
      if (events.some(({ occurredAt }) => occurredAt.getTime() > latestMs)) throw notSigned('time')
      const account = events[0]?.accountId
      try {
        await inbox.store(crm, events, providers[crm].mostEventsAnHour)
      } catch (error) {
        if (!(error instanceof TooManyEvents)) throw error
        warn('webhooks refused', { reason: 'too_many', provider: crm, account })
        c.header('Retry-After', '3600')
        throw new ApiError(429, 'too_many_events', 'Too many events of this account in an hour.')
      }
      failpoint('before answer')
      eventsNotUnderstood.inc({ provider: crm }, notUnderstood)
      const ofUnknownForm = notUnderstood > 0 && { notUnderstood }
      log.debug('webhook stored', { items, dealEvents: events.length, ...ofUnknownForm })
      if (notUnderstood > 0) warn('events not understood', { provider: crm })
      tell('webhooks stored', { provider: crm, account })
      return c.body(null, 204)
    })
  }
  return routes
}
