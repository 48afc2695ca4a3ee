import { isIP } from 'node:net'
import type { Context, MiddlewareHandler } from 'hono'
import { cors } from 'hono/cors'
import { personHeader } from '../../contract/endpoints.ts'
import { ApiError } from './errors.ts'
import { incomingOf } from './server.ts'

const refusal = () =>
  new ApiError(403, 'cross_site', 'This call may only be made by the dashboard itself.')

/**
 * Refuses a request that another site made the browser send. SameSite=Strict already keeps the cookie
 * out of such requests; this is a second guard.
 *
 * `Origin` alone decides if it is present. With DNS rebinding, a page of another site has our address,
 * so its requests are `Sec-Fetch-Site: same-origin`, but their `Origin` is the other site's name. A
 * request with neither header comes from no browser, or it is a GET over plain http, which the state
 * check protects.
 */
export function fromDashboardOnly(appOrigin: string): MiddlewareHandler {
  return async (c, next) => {
    if (!isFrom(c, [appOrigin])) throw refusal()
    await next()
  }
}

function isFrom(c: Context, origins: readonly string[]): boolean {
  const origin = c.req.header('Origin')
  const site = c.req.header('Sec-Fetch-Site')
  return origin === undefined
    ? site === undefined || site === 'same-origin'
    : origins.includes(origin)
}

export function writesFromDashboardOnly(appOrigin: string): MiddlewareHandler {
  const guard = fromDashboardOnly(appOrigin)
  return async (c, next) => (isRead(c.req.method) ? next() : guard(c, next))
}

export function isRead(method: string): boolean {
  return ['GET', 'HEAD', 'OPTIONS'].includes(method)
}

/** Refuses navigations: links, redirects and the address bar. The dashboard uses fetch. */
export const byFetchOnly: MiddlewareHandler = async (c, next) => {
  if (c.req.header('Sec-Fetch-Mode') === 'navigate') throw refusal()
  await next()
}

/**
 * Refuses a navigation that another site started. The browser sends it without the SameSite=Strict cookie, so the answer
 * would set the cookie of a new browser. It would replace that of a session, and the person would be signed out. Refuses
 * also images, frames and fetches, which each get a cookie, and which a page can make by the hundred. Older browsers do
 * not say what they are.
 */
export const byOwnNavigation: MiddlewareHandler = async (c, next) => {
  const purpose = c.req.header('Sec-Fetch-Dest') ?? 'document'
  if (c.req.header('Sec-Fetch-Site') === 'cross-site' || purpose !== 'document') throw refusal()
  await next()
}

/**
 * Guards the stand-ins, which know nobody. They answer at the server's own address, or at a number. With DNS rebinding, a
 * page of another site has our address, but asks for its own name. Only their own pages and programs may write.
 */
export function toStandIn(apiUrl: string): MiddlewareHandler {
  const own = new URL(apiUrl)
  return async (c, next) => {
    const { host, hostname } = new URL(c.req.url)
    const isOurs = host === own.host || isLoopback(hostname) || isNumber(hostname)
    const mayWrite = isFrom(c, [own.origin, `http://${host}`, `https://${host}`])
    if (!isOurs || !(mayWrite || isRead(c.req.method))) throw refusal()
    await next()
  }
}

/** Allows every page to read an answer about nobody. A page at a wrong address learns the right one. */
export const corsForAll: MiddlewareHandler = cors({ origin: (origin) => origin, credentials: true })

/** Allows calls from the dashboard's origin if another host serves it. Allows no other origin. */
export function corsForDashboard(appOrigin: string): MiddlewareHandler {
  const allow = cors({
    origin: appOrigin,
    credentials: true,
    allowMethods: ['GET', 'POST', 'DELETE'],
    allowHeaders: ['Content-Type', personHeader],
    // Also what time it is: the browser's clock may be wrong.
    exposeHeaders: [personHeader, 'Date'],
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

const isNumber = (hostname: string) => isIP(hostname.replace(/^\[|\]$/g, '')) !== 0

/** Whether this host in a URL is the machine itself. */
export function isLoopback(hostname: string): boolean {
  return /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)
}

const proxyHeaders = ['Forwarded', 'X-Forwarded-For', 'X-Forwarded-Host', 'X-Real-IP', 'Via']

/**
 * Whether a program on this machine asks. A proxy on this machine passes the requests of others on; its headers show
 * that, or the name of the public host.
 */
export function isFromThisMachine(c: Context): boolean {
  const { remoteAddress, localAddress } = incomingOf(c)?.socket ?? {}
  const isLocal =
    remoteAddress !== undefined &&
    // With HOST set to an address of the network, the machine calls itself at that address.
    (/^(::ffff:)?127\.|^::1$/.test(remoteAddress) || remoteAddress === localAddress)
  const isDirect = proxyHeaders.every((name) => c.req.header(name) === undefined)
  const { hostname } = new URL(c.req.url)
  return isLocal && isDirect && (hostname === 'localhost' || isNumber(hostname))
}

export const fromThisMachineOnly: MiddlewareHandler = async (c, next) => {
  if (!isFromThisMachine(c)) return c.notFound()
  await next()
}
