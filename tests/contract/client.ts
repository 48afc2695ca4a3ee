import { isIP } from 'node:net'

/** How long the dashboard waits for a call, in milliseconds (src/api/client.ts). */
const dashboardTimeoutMs = 10_000

export interface Provider {
  /** The name in lower case, as in paths. */
  id: string
  name: string
}

/** The backend that is checked, and how the dashboard would call it. */
export interface Target {
  /** The address of the backend without a trailing slash, as in VITE_API_URL. */
  url: string
  crm: Provider
  chat: Provider
  /** The origin of the dashboard; undefined if it is the backend's. */
  origin?: string | undefined
  /** A session, as in the header Cookie. */
  cookie?: string | undefined
  timeoutMs?: number | undefined
  /** Answers a request in place of fetch. */
  send?: (request: Request) => Promise<Response>
}

export interface Exchange {
  method: string
  url: string
  /** The headers that were sent. */
  headers: Headers
  body: string | undefined
  /** Undefined if no answer came. */
  answer: { status: number; ok: boolean; url: string; headers: Headers; body: string } | undefined
}
export type Answered = Exchange & { answer: object }

/** Why a check did not pass. */
export class Finding extends Error {
  readonly result: 'failed' | 'warning' | 'not run'
  readonly exchange: Exchange | undefined
  /** The request got no answer at all. */
  readonly isUnreachable: boolean

  constructor(
    result: Finding['result'],
    message: string,
    {
      exchange,
      isUnreachable = false,
    }: { exchange?: Exchange | undefined; isUnreachable?: boolean } = {},
  ) {
    super(message)
    this.result = result
    this.exchange = exchange
    this.isUnreachable = isUnreachable
  }
}

export interface CallOptions {
  method?: string
  headers?: Record<string, string>
  body?: string
  /** The browser opens the address itself; it does not fetch it. */
  navigates?: boolean
  /** Leaves the session out, and keeps no cookie of the answer. */
  withoutSession?: boolean
}

export type Client = ReturnType<typeof openClient>

/** Calls a backend as the dashboard in a browser does. Keeps cookies and remembers what was sent. */
export function openClient(target: Target) {
  const { url, origin, timeoutMs = dashboardTimeoutMs, send = fetch } = target
  const pageOrigin = origin ?? new URL(url).origin
  const cookies = new Map<string, string>()
  for (const cookie of (target.cookie ?? '').split(';')) keepCookie(cookies, cookie)
  const exchanges: Exchange[] = []
  const secrets = new Set(cookies.values())

  async function call(path: string, options: CallOptions = {}): Promise<Answered> {
    const { method = 'GET', body, navigates, withoutSession } = options
    const headers = new Headers({
      Accept: navigates ? 'text/html' : 'application/json',
      'Sec-Fetch-Site': siteOf(url, pageOrigin),
      'Sec-Fetch-Mode': navigates ? 'navigate' : 'cors',
      // A browser names the origin in calls to another origin, and in each call that may write.
      ...(!navigates && (origin !== undefined || method !== 'GET') && { Origin: pageOrigin }),
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...options.headers,
    })
    if (!withoutSession && cookies.size > 0) {
      headers.set('Cookie', [...cookies].map((pair) => pair.join('=')).join('; '))
    }
    const exchange: Exchange = { method, url: url + path, headers, body, answer: undefined }
    exchanges.push(exchange)
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      const response = await send(
        new Request(exchange.url, {
          method,
          headers,
          body: body ?? null,
          // A script's GET follows redirects. A redirect turns a POST into a GET, so nothing is saved.
          redirect: method === 'GET' && !navigates ? 'follow' : 'manual',
          signal: timeout,
        }),
      )
      const answer = {
        status: response.status,
        ok: response.ok,
        url: response.url || exchange.url,
        headers: response.headers,
        body: await response.text(),
      }
      for (const cookie of response.headers.getSetCookie()) {
        secrets.add(cookieValue(cookie))
        if (!withoutSession) keepCookie(cookies, cookie)
      }
      return Object.assign(exchange, { answer })
    } catch (error) {
      throw new Finding(
        'failed',
        timeout.aborted
          ? `No complete answer came within ${timeoutMs / 1000} s. The dashboard does not wait longer.`
          : `The connection failed (${causeOf(error)}).`,
        { exchange, isUnreachable: !timeout.aborted },
      )
    }
  }

  return {
    call,
    target,
    pageOrigin,
    exchanges,
    /** The values of all cookies, which must not be shown. */
    secrets,
  }
}

function keepCookie(cookies: Map<string, string>, cookie: string): void {
  const name = cookie.split(/[=;]/)[0]?.trim()
  if (!name || !cookie.includes('=')) return
  if (endsCookie(cookie)) cookies.delete(name)
  else cookies.set(name, cookieValue(cookie))
}

function cookieValue(cookie: string): string {
  return (cookie.split(';')[0] ?? '').split('=').slice(1).join('=').trim()
}

/** Whether a Set-Cookie removes its cookie. */
export function endsCookie(cookie: string): boolean {
  const maxAge = cookie.match(/;\s*max-age=(-?\d+)/i)?.[1]
  if (maxAge !== undefined) return Number(maxAge) <= 0
  const expires = cookie.match(/;\s*expires=([^;]+)/i)?.[1]
  return expires !== undefined && Date.parse(expires) < Date.now()
}

/** How a browser relates a page to the address that it calls (Sec-Fetch-Site). */
export function siteOf(url: string, origin: string): 'same-origin' | 'same-site' | 'cross-site' {
  const [a, b] = [new URL(url), new URL(origin)]
  if (a.origin === b.origin) return 'same-origin'
  if (a.protocol !== b.protocol) return 'cross-site'
  return site(a.hostname) === site(b.hostname) ? 'same-site' : 'cross-site'
}

/** The registrable domain, without the list of public suffixes: two labels, or three as in example.co.uk. */
function site(host: string): string {
  if (isIP(host.replace(/^\[|\]$/g, '')) !== 0) return host
  return host.match(/[^.]+\.(?:[a-z]{2,3}\.[a-z]{2}|[^.]+)$/)?.[0] ?? host
}

/** The code of a failed connection, such as ECONNREFUSED. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  if (!(cause instanceof Error)) return 'unknown reason'
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.message
}
