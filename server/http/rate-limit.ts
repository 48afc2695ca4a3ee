import { isIPv4, isIPv6 } from 'node:net'
import type { Context, MiddlewareHandler } from 'hono'
import { expandIPv6 } from 'hono/utils/ipaddr'
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import type { Log } from '../log.ts'
import { requestsLimited } from '../watch/metrics.ts'
import { ApiError } from './errors.ts'
import { incomingOf } from './incoming.ts'

interface Limit {
  times: number
  seconds: number
  /** How often all networks of one IPv6 site (/48) together may do it. One customer can have them all. */
  timesOfSite?: number
  /** What a user reads who reaches the limit by ordinary use. The log does not mention it. */
  refusal?: string
}

/**
 * How often something may happen. A whole company can be behind one address, so a browser with a session
 * counts for itself. Anyone can get new sessions. So new sessions have limits of their own, and do not use up those
 * of people who have connected a service.
 */
export const rateLimits = {
  /** A new browser makes three calls when it opens the dashboard: 300 new browsers a minute. */
  callsOfAddress: { times: 1_000, seconds: 60, timesOfSite: 10_000 },
  /** A person makes a few calls when opening the dashboard, and one for each click. */
  callsOfSession: { times: 300, seconds: 60 },
  /** Of sessions that have connected nothing yet: about 100 people can connect both services in a minute. */
  callsOfNewSessionsAtAddress: { times: 1_000, seconds: 60, timesOfSite: 10_000 },
  /** Of sessions that have connected a service. 1,500 people can open the dashboard in a minute. */
  callsOfSessionsAtAddress: { times: 6_000, seconds: 60 },
  /** Each stores a user and a session for a caller of whom nothing is known. One site leaves room for others. */
  newSessionsOfAddress: { times: 100, seconds: 600, timesOfSite: 200 },
  /** Even callers at many addresses leave at most 72,000 a day, most of which are deleted after a day. */
  newSessions: { times: 500, seconds: 600 },
  /** An authorization is pending for 10 minutes, and can lead to two calls to the provider. */
  authorizationsOfSession: { times: 20, seconds: 600 },
  /**
   * 300 people behind one address can connect both services in 10 minutes. Their second authorization counts in
   * the next limit.
   */
  authorizationsOfNewSessionsAtAddress: { times: 300, seconds: 600, timesOfSite: 1_500 },
  authorizationsOfSessionsAtAddress: { times: 300, seconds: 600 },
  /** Bounds the pending authorizations of all new sessions. */
  authorizations: { times: 5_000, seconds: 600 },
  /** A test message waits for up to eight seconds. All browsers of a user count together. */
  testMessagesOfUser: {
    times: 1,
    seconds: 10,
    refusal: 'The last test message was less than ten seconds ago. Try again in a moment.',
  },
  /** Each changes up to 1,000 messages. Five clicks send what failed in a long break. */
  retryAllOfUser: {
    times: 6,
    seconds: 60,
    refusal: 'Failed messages were sent again several times in a minute. Try again in a moment.',
  },
  /** The pages of the stand-ins. One person plays with them. */
  standInsOfAddress: { times: 600, seconds: 60, timesOfSite: 6_000 },
} as const satisfies Record<string, Limit>

type LimitName = keyof typeof rateLimits

/** Each limit remembers at most this many addresses or sessions: about 5 MB. */
const maxRemembered = 10_000
/** A flood must not fill the log. */
const logEveryMs = 60_000
/** The server calls the APIs of its own stand-ins, for each message at least twice. */
const standInApi = /^\/sandbox\/[^/]+\/(account-info|api|appinstalls|crm|oauth\/2026-03|services)\//

/** What a browser's token tells without the database. */
export interface IssuedSession {
  tokenHash: string
  /** True until the browser connects a service. */
  isNew: boolean
}

export interface RateLimits {
  /** Limits calls by session, or by address for a browser without one. */
  calls(sessionOf: (c: Context) => IssuedSession | undefined): MiddlewareHandler
  /** Limits the pages of the stand-ins. */
  standIns: MiddlewareHandler
  /** Counts a new session. @throws ApiError (429), as the next one does. */
  newSession(c: Context): Promise<void>
  /** Counts an authorization that begins. */
  authorization(c: Context, session: IssuedSession): Promise<void>
  /** Counts a test message that begins. */
  testMessage(c: Context, userId: string): Promise<void>
  /** Counts a call that sends all failed messages again. */
  retryAll(c: Context, userId: string): Promise<void>
}

/** Counts in memory. Requests that come through no socket are not counted (tests in one process). */
export function createRateLimits({
  trustedProxies,
  log,
}: {
  trustedProxies: number
  log: Log
}): RateLimits {
  const counters = new Map<string, Counter>()
  const lastLogged = new Map<LimitName, number>()

  async function countOne(name: string, limit: Limit, key: string): Promise<number> {
    const counter = counters.get(name) ?? new Counter(limit)
    counters.set(name, counter)
    return await counter.count(key)
  }

  async function countSite(name: string, limit: Limit, address: string): Promise<number> {
    const { timesOfSite, seconds } = limit
    const site = siteOf(address)
    if (timesOfSite === undefined || site === undefined) return 0
    return await countOne(`${name} of site`, { times: timesOfSite, seconds }, site)
  }

  /** @throws ApiError (429) when one of the limits is reached. Later limits then count nothing. */
  async function count(c: Context, ...counted: Array<[LimitName, string]>): Promise<void> {
    for (const [name, key] of counted) {
      const limit: Limit = rateLimits[name]
      const waitMs = (await countOne(name, limit, key)) || (await countSite(name, limit, key))
      if (waitMs === 0) continue
      requestsLimited.inc({ limit: name })
      const isLogged = limit.refusal === undefined
      const loggedAt = lastLogged.get(name) ?? Number.NEGATIVE_INFINITY
      if (isLogged && performance.now() - loggedAt >= logEveryMs) {
        lastLogged.set(name, performance.now())
        log('rate limit reached', { limit: name })
      }
      c.header('Retry-After', String(Math.ceil(waitMs / 1000)))
      const refusal = limit.refusal ?? 'Too many requests. Try again later.'
      throw new ApiError(429, 'too_many_requests', refusal)
    }
  }

  let warned = false
  function addressOf(c: Context): string | undefined {
    const forwardedFor = c.req.header('X-Forwarded-For')
    if (trustedProxies === 0 && forwardedFor !== undefined && !warned) {
      warned = true
      log('X-Forwarded-For is ignored: set TRUSTED_PROXIES if a proxy of yours sends it')
    }
    return clientAddress(c, trustedProxies)
  }

  return {
    calls: (sessionOf) => async (c, next) => {
      const address = addressOf(c)
      if (address !== undefined) {
        const session = sessionOf(c)
        if (session === undefined) await count(c, ['callsOfAddress', address])
        else {
          const ofAddress = session.isNew
            ? 'callsOfNewSessionsAtAddress'
            : 'callsOfSessionsAtAddress'
          await count(c, ['callsOfSession', session.tokenHash], [ofAddress, address])
        }
      }
      await next()
    },
    async standIns(c, next) {
      const address = addressOf(c)
      if (address !== undefined && !standInApi.test(c.req.path)) {
        await count(c, ['standInsOfAddress', address])
      }
      await next()
    },
    async newSession(c) {
      const address = addressOf(c)
      if (address === undefined) return
      await count(c, ['newSessionsOfAddress', address], ['newSessions', 'all'])
    },
    async authorization(c, { tokenHash, isNew }) {
      const address = addressOf(c)
      if (address === undefined) return
      await count(c, ['authorizationsOfSession', tokenHash])
      if (isNew) {
        const ofAddress = 'authorizationsOfNewSessionsAtAddress'
        await count(c, [ofAddress, address], ['authorizations', 'all'])
      } else await count(c, ['authorizationsOfSessionsAtAddress', address])
    },
    // A user needs no address to be counted.
    testMessage: (c, userId) => count(c, ['testMessagesOfUser', userId]),
    retryAll: (c, userId) => count(c, ['retryAllOfUser', userId]),
  }
}

/** Counts by key. It forgets the key that was counted longest ago when there are too many. */
export class Counter {
  readonly #limiter: RateLimiterMemory
  readonly #longestMs: number
  // The library forgets a key only when its time is over. In the order in which they were counted.
  readonly #keys = new Set<string>()

  constructor({ times, seconds }: Limit) {
    this.#limiter = new RateLimiterMemory({ points: times, duration: seconds })
    this.#longestMs = seconds * 1000
  }

  /** How many keys are in memory. */
  get size(): number {
    return this.#limiter.dump().storage.length
  }

  /** @returns 0, or in how many ms the key is free again when it has reached the limit. */
  async count(key: string): Promise<number> {
    this.#keys.delete(key)
    this.#keys.add(key)
    if (this.#keys.size > maxRemembered) {
      const [oldest = ''] = this.#keys
      this.#keys.delete(oldest)
      await this.#limiter.delete(oldest)
    }
    try {
      await this.#limiter.consume(key)
      return 0
    } catch (refusal) {
      // The library compares wall clocks, which may have been put back since.
      if (refusal instanceof RateLimiterRes) return Math.min(refusal.msBeforeNext, this.#longestMs)
      throw refusal
    }
  }
}

/**
 * The client's address, as a key to count by. An IPv6 address counts as its /64 network, which one
 * customer has for himself.
 * @param trustedProxies how many entries at the end of X-Forwarded-For come from proxies that we trust.
 * Whatever stands before them, the client can write itself.
 * @returns undefined for a request that came through no socket.
 */
export function clientAddress(c: Context, trustedProxies: number): string | undefined {
  const incoming = incomingOf(c)
  if (incoming === undefined) return undefined
  const forwarded = c.req.header('X-Forwarded-For')?.split(',') ?? []
  const named = trustedProxies > 0 ? forwarded.at(-trustedProxies) : undefined
  // All requests whose address cannot be told count together.
  return (
    (named !== undefined && networkOf(withoutPort(named.trim()))) ||
    networkOf(incoming.socket.remoteAddress ?? '') ||
    'unknown'
  )
}

/** Some proxies add the port. */
function withoutPort(address: string): string {
  return /^\[(.+)\](:\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address
}

/** The /48 of an IPv6 network; undefined for another address. */
function siteOf(network: string): string | undefined {
  return network.includes(':') ? network.split(':').slice(0, 3).join(':') : undefined
}

/** The network that counts as one client; undefined if this is no IP address. */
export function networkOf(address: string): string | undefined {
  // An IPv4 client on a socket that takes both.
  const plain = address.replace(/^::ffff:(?=[\d.]+$)/i, '').replace(/%.*$/, '')
  if (isIPv4(plain)) return plain
  if (!isIPv6(plain)) return undefined
  return expandIPv6(plain.toLowerCase()).split(':').slice(0, 4).join(':')
}
