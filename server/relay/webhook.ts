import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { ApiError } from '../http/errors.ts'
import type { Log } from '../log.ts'
import { dealEvents } from '../providers/hubspot/events.ts'
import { isSignedByHubSpot } from '../providers/hubspot/signature.ts'
import { failpoint } from './failpoint.ts'
import type { Inbox } from './inbox.ts'

const maxBodyBytes = 1024 * 1024

/** Where HubSpot tells of changes: one address for all accounts, each batch signed. */
export function webhookRoutes({
  inbox,
  clientSecret,
  appUrl,
  now,
  log,
}: {
  inbox: Inbox
  clientSecret: string
  /** The configured public origin: a proxy may show us another. */
  appUrl: string
  now: () => Date
  log: Log
}) {
  return new Hono().post(
    '/hubspot',
    bodyLimit({
      maxSize: maxBodyBytes,
      onError: () => {
        throw new ApiError(413, 'too_large', 'The body must not be over 1 MiB.')
      },
    }),
    async (c) => {
      const body = Buffer.from(await c.req.arrayBuffer())
      const { pathname, search } = new URL(c.req.url)
      const request = {
        method: 'POST',
        url: `${appUrl}${pathname}${search}`,
        body,
        timestamp: c.req.header('X-HubSpot-Request-Timestamp'),
        signature: c.req.header('X-HubSpot-Signature-v3'),
      }
      if (!isSignedByHubSpot(clientSecret, request, now().getTime())) {
        throw new ApiError(401, 'invalid_signature', 'The request is not signed by HubSpot.')
      }
      failpoint('verified')

      const items = parseArray(body)
      const events = dealEvents(items)
      await inbox.store(events)
      failpoint('before answer')
      log('webhook stored', { items: items.length, dealEvents: events.length })
      return c.body(null, 204)
    },
  )
}

function parseArray(body: Buffer): unknown[] {
  try {
    const items: unknown = JSON.parse(body.toString('utf8'))
    if (Array.isArray(items)) return items
  } catch {
    // Said below, as for any other body that holds no events.
  }
  throw new ApiError(400, 'invalid_body', 'The body must be a JSON array of events.')
}
