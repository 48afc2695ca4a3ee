import type { MiddlewareHandler } from 'hono'

/** One Content-Security-Policy: a directive's name and what it allows. */
type Policy = Readonly<Record<string, readonly string[]>>

// What no page of ours needs is forbidden; Trusted Types close the door to injected HTML.
const strict: Policy = {
  'default-src': ["'none'"],
  'style-src': ["'self'"],
  'img-src': ["'self'"],
  'base-uri': ["'none'"],
  'form-action': ["'none'"],
  'frame-ancestors': ["'none'"],
  'require-trusted-types-for': ["'script'"],
  'trusted-types': ["'none'"],
}

/** The dashboard: its own scripts, calls to its backend, and the contact form in a frame. */
export function dashboardPolicy(settings: { apiUrl: string; contactFormUrl: string }): string {
  return written({
    ...strict,
    'script-src': ["'self'"],
    'connect-src': ["'self'", ...originOf(settings.apiUrl)],
    'frame-src': URL.canParse(settings.contactFormUrl)
      ? originOf(settings.contactFormUrl)
      : ["'self'"],
  })
}

/**
 * A stand-in's page: no script, and a form that may lead back to the dashboard. The contact form's
 * page stands in a sandboxed frame without an origin of its own, where 'self' matches nothing, so
 * the origin is written out.
 */
export function standInPolicy(appOrigin: string, { inFrame }: { inFrame: boolean }): string {
  return written({
    ...strict,
    'style-src': ["'self'", appOrigin],
    'form-action': ["'self'", appOrigin],
    'frame-ancestors': [inFrame ? "'self'" : "'none'"],
  })
}

const answerPolicy = written({ 'default-src': ["'none'"], 'frame-ancestors': ["'none'"] })

/** Sets the headers that every answer carries; a page brings its own Content-Security-Policy. */
export function securityHeaders({ https }: { https: boolean }): MiddlewareHandler {
  return async (c, next) => {
    await next()
    const headers = c.res.headers
    if (!headers.has('Content-Security-Policy')) {
      headers.set('Content-Security-Policy', answerPolicy)
    }
    if (!headers.has('Cache-Control')) headers.set('Cache-Control', 'no-store')
    headers.set('X-Content-Type-Options', 'nosniff')
    // The address of a callback holds a code.
    headers.set('Referrer-Policy', 'no-referrer')
    headers.set('Cross-Origin-Opener-Policy', 'same-origin')
    headers.set('Permissions-Policy', 'camera=(), geolocation=(), microphone=(), payment=()')
    if (https) headers.set('Strict-Transport-Security', 'max-age=63072000; includeSubDomains')
  }
}

function written(policy: Policy): string {
  return Object.entries(policy)
    .map(([directive, sources]) => `${directive} ${sources.join(' ')}`)
    .join('; ')
}

function originOf(url: string): string[] {
  return URL.canParse(url) ? [new URL(url).origin] : []
}
