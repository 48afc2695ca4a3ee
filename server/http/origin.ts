import type { MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'
import { ApiError } from './errors.ts'

const refusal = () =>
  new ApiError(403, 'cross_site', 'This call may only be made by the dashboard itself.')

/**
 * Refuses a request that another site made the browser send. SameSite=Strict already keeps the cookie
 * out of such requests; this is a second guard. A request with neither header comes from no browser, or
 * it is a GET over plain http, which the state check protects.
 */
export function fromDashboardOnly(appOrigin: string): MiddlewareHandler {
  return async (c, next) => {
    const origin = c.req.header('Origin')
    const site = c.req.header('Sec-Fetch-Site')
    const allowed =
      origin === appOrigin || site === 'same-origin' || (origin === undefined && site === undefined)
    if (!allowed) throw refusal()
    await next()
  }
}

/** Does the same for every request that is not a read. */
export function writesFromDashboardOnly(appOrigin: string): MiddlewareHandler {
  const guard = fromDashboardOnly(appOrigin)
  return async (c, next) =>
    ['GET', 'HEAD', 'OPTIONS'].includes(c.req.method) ? next() : guard(c, next)
}

/** Refuses navigations: links, redirects and the address bar. The page makes this call with fetch. */
export const byFetchOnly: MiddlewareHandler = async (c, next) => {
  if (c.req.header('Sec-Fetch-Mode') === 'navigate') throw refusal()
  await next()
}

/**
 * Refuses a navigation that another site started. It comes without the SameSite=Strict cookie, so it
 * would make a new session, whose cookie would replace the browser's own.
 */
export const notFromAnotherSite: MiddlewareHandler = async (c, next) => {
  if (c.req.header('Sec-Fetch-Site') === 'cross-site') throw refusal()
  await next()
}

/** Allows calls from the dashboard's origin when another host serves the page, and from no other. */
export function corsForDashboard(appOrigin: string): MiddlewareHandler {
  const allow = cors({
    origin: appOrigin,
    credentials: true,
    allowMethods: ['GET', 'POST', 'DELETE'],
    allowHeaders: ['Content-Type'],
    maxAge: 600,
  })
  return async (c, next) => (c.req.header('Origin') === appOrigin ? allow(c, next) : next())
}

/**
 * Redirects a page at 127.0.0.1 to localhost if APP_URL is at localhost. The provider sends the browser
 * back to localhost, where a cookie of 127.0.0.1 is not sent.
 */
export function atOneLoopbackName(appOrigin: string): MiddlewareHandler {
  const app = new URL(appOrigin)
  return async (c, next) => {
    const asked = new URL(c.req.url)
    const otherName = ['127.0.0.1', '[::1]'].includes(asked.hostname) && asked.port === app.port
    if (app.hostname !== 'localhost' || !otherName || c.req.method !== 'GET') return next()
    return c.redirect(appOrigin + asked.pathname + asked.search)
  }
}
