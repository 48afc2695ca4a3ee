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

/**
 * The Strict-Transport-Security of a server at these addresses; undefined for none. By default,
 * none if an address has a port: other programs may use the host's other ports.
 * @param hstsMaxAge the setting, in seconds.
 */
export function hstsOf({
  appUrl,
  apiUrl,
  hstsMaxAge,
}: {
  appUrl: string
  apiUrl: string
  hstsMaxAge: number | undefined
}): string | undefined {
  const hasPort = [appUrl, apiUrl]
    .map((url) => new URL(url))
    .some(({ protocol, port }) => protocol === 'https:' && port !== '')
  if (!appUrl.startsWith('https:') || (hasPort && hstsMaxAge === undefined)) return undefined
  return strictTransportSecurity(hstsMaxAge)
}

/** The headers of an answer that is no page. */
export function alwaysSent(hsts: string | undefined): Record<string, string> {
  return {
    'Content-Security-Policy': answerPolicy,
    'Cache-Control': 'no-store',
    ...everyAnswer,
    ...(hsts !== undefined && { 'Strict-Transport-Security': hsts }),
  }
}

/** Sets the headers of every answer. A page sets its own Content-Security-Policy, and how long it is kept. */
export function safetyHeaders(hsts: string | undefined): MiddlewareHandler {
  const always = Object.entries(alwaysSent(hsts))
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
