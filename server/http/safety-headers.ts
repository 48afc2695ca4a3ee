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

/** The headers of an answer that is no page. */
export function alwaysSent({ https }: { https: boolean }): Record<string, string> {
  return {
    'Content-Security-Policy': answerPolicy,
    'Cache-Control': 'no-store',
    ...everyAnswer,
    ...(https && { 'Strict-Transport-Security': strictTransportSecurity }),
  }
}

/** Sets the headers of every answer. A page sets its own Content-Security-Policy, and how long it is kept. */
export function safetyHeaders(options: { https: boolean }): MiddlewareHandler {
  const always = Object.entries(alwaysSent(options))
  const own = ['Content-Security-Policy', 'Cache-Control']
  // A page with a form needs it: with `no-referrer`, browsers send `Origin: null` with the form.
  const isOwn = (name: string, set: string | null) =>
    set !== null && (own.includes(name) || (name === 'Referrer-Policy' && set === 'same-origin'))
  return async (c, next) => {
    await next()
    const { headers } = c.res
    for (const [name, value] of always) {
      if (!isOwn(name, headers.get(name))) headers.set(name, value)
    }
  }
}
