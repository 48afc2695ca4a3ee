import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'

/** Node's own request; undefined in a test that calls the app without a port. */
export function incomingOf(c: Context): IncomingMessage | undefined {
  // Only Node's adapter sets this, so it has this type.
  return (c.env as { incoming?: IncomingMessage } | undefined)?.incoming
}
