import type { MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'
import { ApiError } from './errors.ts'

const refusal = () =>
  new ApiError(403, 'cross_site', 'This call may only be made by the dashboard itself.')

/**
 * Refuses a request that another site made the browser send. This is a second guard, because
 * browsers send such requests without the SameSite=Strict cookie. A request with neither header is
 * allowed: it comes from no browser, or it is a GET over http, which the check of the state
 * protects.
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

/** Like `fromDashboardOnly`, but allows all reads. */
export function writesFromDashboardOnly(appOrigin: string): MiddlewareHandler {
  const guard = fromDashboardOnly(appOrigin)
  return async (c, next) =>
    ['GET', 'HEAD', 'OPTIONS'].includes(c.req.method) ? next() : guard(c, next)
}

/** Refuses navigations: links, redirects and the address bar. The dashboard uses fetch. */
export const byFetchOnly: MiddlewareHandler = async (c, next) => {
  if (c.req.header('Sec-Fetch-Mode') === 'navigate') throw refusal()
  await next()
}

/**
 * Refuses a navigation that another site started. The browser sends it without the SameSite=Strict
 * cookie, so the server would create a new session. The new cookie would replace the browser's
 * cookie.
 */
export const notFromAnotherSite: MiddlewareHandler = async (c, next) => {
  if (c.req.header('Sec-Fetch-Site') === 'cross-site') throw refusal()
  await next()
}

/** Allows calls from the dashboard's origin if another host serves it. Allows no other origin. */
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
 * Redirects pages from 127.0.0.1 to localhost if APP_URL is at localhost. The providers redirect to
 * localhost, and the browser does not send a cookie of 127.0.0.1 there.
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
