import { isIPv4, isIPv6 } from 'node:net'
import type { Context, Next } from 'hono'
import { expandIPv6 } from 'hono/utils/ipaddr'
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { atMostOnceAMinute, type Log } from '../log.ts'
import { requestsLimited } from '../watch/metrics.ts'
import { ApiError } from './errors.ts'
import { incomingOf } from './server.ts'

interface Limit {
  times: number
  seconds: number
  /** What a user reads who reaches the limit by ordinary use. The log does not mention it. */
  refusal?: string
  /** What a user reads whom others keep from going on. */
  others?: string
}

/** How often something may happen. A whole company can be behind one address. */
export const rateLimits = {
  /** A person makes a few calls when opening the dashboard: 1,500 people can open it in a minute. */
  callsOfAddress: { times: 6_000, seconds: 60 },
  /** Each can lead to two calls to the provider. 150 people can connect both services in ten minutes. */
  authorizationsOfAddress: { times: 300, seconds: 600 },
  /**
   * Calls to one provider that failed, with codes or addresses that anybody can make up. A provider may refuse everything
   * of a server that has made ten times as many.
   */
  failuresOfAll: {
    times: 1_000,
    seconds: 600,
    others:
      'Too many authorizations have failed here. Connect in a browser that is signed in, or try again in ten minutes.',
  },
  /** Then each person whom the CRM has named may still make mistakes. */
  failuresOfPerson: { times: 20, seconds: 600 },
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
  standInsOfAddress: { times: 600, seconds: 60 },
} as const satisfies Record<string, Limit>

type LimitName = keyof typeof rateLimits

/** The server calls the APIs of its own stand-ins, for each message at least twice. */
const standInApi = /^\/sandbox\/[^/]+\/(account-info|api|appinstalls|crm|oauth\/2026-03|services)\//

export type RateLimits = ReturnType<typeof createRateLimits>

/**
 * Each function counts, and throws ApiError (429) when its limit is reached. Counts in memory. Requests that come through
 * no socket are not counted (tests in one process).
 */
export function createRateLimits({ trustedProxies, log }: { trustedProxies: number; log: Log }) {
  const limiters = new Map<string, RateLimiterMemory>()
  const warn = atMostOnceAMinute(log.warn)

  function limiterOf(name: LimitName): RateLimiterMemory {
    const { times, seconds } = rateLimits[name]
    const limiter =
      limiters.get(name) ?? new RateLimiterMemory({ points: times, duration: seconds })
    limiters.set(name, limiter)
    return limiter
  }

  /** Counts. @returns the limit if it was reached before. */
  const take = (name: LimitName, key: string): Promise<RateLimiterRes | undefined> =>
    limiterOf(name)
      .consume(key)
      .then(
        () => undefined,
        (reached: unknown) => {
          if (reached instanceof RateLimiterRes) return reached
          throw reached
        },
      )

  function refuse(c: Context, name: LimitName, reached: RateLimiterRes, of = {}): never {
    const { seconds, refusal, others }: Limit = rateLimits[name]
    requestsLimited.inc({ limit: name })
    if (refusal === undefined) warn('rate limit reached', { limit: name, ...of })
    // The library compares wall clocks, which may have been put back since.
    const waitMs = Math.min(reached.msBeforeNext, seconds * 1000)
    c.header('Retry-After', String(Math.ceil(waitMs / 1000)))
    const sentence = refusal ?? others ?? 'Too many requests. Try again later.'
    throw new ApiError(429, 'too_many_requests', sentence)
  }

  async function count(c: Context, name: LimitName, key: string | undefined): Promise<void> {
    const reached = key === undefined ? undefined : await take(name, key)
    if (reached !== undefined) refuse(c, name, reached)
  }

  let warned = false
  function addressOf(c: Context): string | undefined {
    const forwardedFor = c.req.header('X-Forwarded-For')
    if (trustedProxies === 0 && forwardedFor !== undefined && !warned) {
      warned = true
      log.warn('X-Forwarded-For is ignored: set TRUSTED_PROXIES if a proxy of yours sends it')
    }
    return clientAddress(c, trustedProxies)
  }

  return {
    async calls(c: Context, next: Next): Promise<void> {
      await count(c, 'callsOfAddress', addressOf(c))
      await next()
    },
    /** The pages of the stand-ins. */
    async standIns(c: Context, next: Next): Promise<void> {
      if (!standInApi.test(c.req.path)) await count(c, 'standInsOfAddress', addressOf(c))
      await next()
    },
    /**
     * Calls a provider with what anybody can make up. Counts the call before it is made, because many may be on their way,
     * and takes that back if it has worked.
     * @param person whom the CRM has named. Others cannot use up what this person may try.
     */
    async attempt<Result>(
      c: Context,
      provider: string,
      person: string | undefined,
      call: () => Promise<Result>,
      hasWorked: (result: Result) => boolean = () => true,
    ): Promise<Result> {
      let [name, key]: [LimitName, string] = ['failuresOfAll', provider]
      let reached = await take(name, key)
      if (reached !== undefined && person !== undefined) {
        ;[name, key] = ['failuresOfPerson', `${provider} ${person}`]
        reached = await take(name, key)
      }
      if (reached !== undefined) refuse(c, name, reached, { provider })
      const result = await call()
      if (hasWorked(result)) await limiterOf(name).reward(key)
      return result
    },
    authorization: (c: Context) => count(c, 'authorizationsOfAddress', addressOf(c)),
    testMessage: (c: Context, userId: string) => count(c, 'testMessagesOfUser', userId),
    /** A call that sends all failed messages again. */
    retryAll: (c: Context, userId: string) => count(c, 'retryAllOfUser', userId),
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

/** The network that counts as one client; undefined if this is no IP address. */
function networkOf(address: string): string | undefined {
  // An IPv4 client on a socket that takes both.
  const plain = address.replace(/^::ffff:(?=[\d.]+$)/i, '').replace(/%.*$/, '')
  if (isIPv4(plain)) return plain
  if (!isIPv6(plain)) return undefined
  return expandIPv6(plain.toLowerCase()).split(':').slice(0, 4).join(':')
}
