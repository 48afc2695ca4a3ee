import type { MiddlewareHandler } from 'hono'
import {
  answerPolicy,
  everyAnswer,
  policyWith,
  strictTransportSecurity,
} from '../../contract/page-headers.ts'

/**
 * The Content-Security-Policy of a stand-in's page. It allows no scripts, except where the page has one: then
 * it allows those of this origin, and their calls. Its forms may lead back to the dashboard. It names the origin,
 * because in the sandboxed frame of the contact form, 'self' matches nothing.
 */
export function standInPolicy(
  appOrigin: string,
  { inFrame, withScript = false }: { inFrame: boolean; withScript?: boolean },
): string {
  return policyWith({
    ...(withScript && { 'script-src': "'self'", 'connect-src': "'self'" }),
    'style-src': `'self' ${appOrigin}`,
    'img-src': "'self'",
    'form-action': `'self' ${appOrigin}`,
    'frame-ancestors': inFrame ? `'self' ${appOrigin}` : "'none'",
  })
}

/** Sets the headers of every answer. A page sets its own Content-Security-Policy. */
export function safetyHeaders({ https }: { https: boolean }): MiddlewareHandler {
  const onHttps = https && { 'Strict-Transport-Security': strictTransportSecurity }
  const always = Object.entries({ ...everyAnswer, ...onHttps })
  return async (c, next) => {
    await next()
    const headers = c.res.headers
    if (!headers.has('Content-Security-Policy')) {
      headers.set('Content-Security-Policy', answerPolicy)
    }
    if (!headers.has('Cache-Control')) headers.set('Cache-Control', 'no-store')
    for (const [name, value] of always) headers.set(name, value)
  }
}
