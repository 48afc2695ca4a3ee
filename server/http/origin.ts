import type { MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'
import { ApiError } from './errors.ts'

const refusal = () =>
  new ApiError(403, 'cross_site', 'This call may only be made by the dashboard itself.')

/**
 * Refuses what another site made the browser send. SameSite=Strict already keeps the cookie from
 * such requests; this is the second lock. A request with neither header comes from no browser that
 * could carry a cookie for someone else, or from a GET over plain http, which has the state check.
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

/** The same for every request that is no read, whatever its path. */
export function writesFromDashboardOnly(appOrigin: string): MiddlewareHandler {
  const guard = fromDashboardOnly(appOrigin)
  return async (c, next) =>
    ['GET', 'HEAD', 'OPTIONS'].includes(c.req.method) ? next() : guard(c, next)
}

/** Refuses a link, a redirect and the address bar: the page itself makes this call, by fetch. */
export const byFetchOnly: MiddlewareHandler = async (c, next) => {
  if (c.req.header('Sec-Fetch-Mode') === 'navigate') throw refusal()
  await next()
}

/**
 * Refuses a navigation that another site began. It arrives without the SameSite=Strict cookie, so it
 * would make a new session and its cookie would replace the one that the browser has.
 */
export const notFromAnotherSite: MiddlewareHandler = async (c, next) => {
  if (c.req.header('Sec-Fetch-Site') === 'cross-site') throw refusal()
  await next()
}

/** Lets the dashboard's own origin call from the browser when another host serves it; nobody else. */
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
 * Sends a page that was opened at 127.0.0.1 to localhost, where APP_URL says so: the provider sends
 * the browser back to localhost, and a cookie of 127.0.0.1 does not come along.
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
