import { setTimeout as delay } from 'node:timers/promises'
import { createCache } from '../cache.ts'
import type { CrmAccess, Urgency } from './provider.ts'
import { ProviderError } from './provider-error.ts'

/** Counts a call of any process (`CountCall` in database/call-counter.ts). */
export type CountSharedCall = (key: string, most: number, intervalMs: number) => Promise<number>

/** How many calls an account may get in any interval, and which share each kind of call may use. */
interface Limit {
  /** What is limited, in the key under which all processes count. */
  of: string
  calls: number
  intervalMs: number
  shares: Record<Urgency, number>
}

/**
 * Calls of one app in one account, until HubSpot's headers name another limit: 100 with private
 * distribution and a small subscription, 110 with marketplace distribution. All processes together
 * have this limit.
 */
export const callLimit: Readonly<Limit> = {
  of: 'calls',
  calls: 100,
  intervalMs: 10_000,
  shares: { fresh: 0.9, backlog: 0.8, spare: 0.4 },
}
/** HubSpot takes five searches a second from all apps together. They do not count as other calls. */
export const searchLimit: Readonly<Limit> = {
  of: 'searches',
  calls: 4,
  intervalMs: 1_000,
  shares: { fresh: 1, backlog: 1, spare: 1 },
}
/**
 * A call that would have to wait longer is not made. The relay tries again later. A message about one event needs up to
 * seven calls (docs/server/hubspot.md lists them), and a stopping server waits for this work for 9.5 seconds.
 */
const longestQueueMs = 1_500
/** When the relay tries again if the database took longer than that to count a call. */
const slowMs = 1_000
/** How much closer together two processes' calls may arrive than they were counted. */
const arrivalMs = 500
/** If other programs used so many calls that only this share of the limit is left, calls wait. */
const almostNone = 0.05
const almostNoneMs = 1_000
/** More accounts than this process can call within an interval. */
const mostAccounts = 20_000

interface Account {
  calls: number
  intervalMs: number
  /** When the calls of the last interval were made, the oldest first, by `now`. */
  made: number[]
  /** No call before this time. */
  pausedUntil: number
}

/**
 * Keeps the calls to each account below HubSpot's limit, so that HubSpot refuses none with 429. The
 * more urgent a call, the more of the limit it may use. So fresh events find room during a backlog.
 * @param now is in ms and never goes back.
 * @param countShared counts the calls of all processes on the database. Without it, this process is the only one.
 */
export function createCallLimiter(
  limit: Limit = callLimit,
  { now, wait }: { now: () => number; wait: (ms: number) => Promise<unknown> } = {
    now: () => performance.now(),
    wait: delay,
  },
  countShared?: CountSharedCall,
) {
  const accounts = createCache<Account>(mostAccounts)

  function accountOf(id: string): Account {
    let account = accounts.get(id)
    if (account === undefined) {
      const { calls, intervalMs } = limit
      account = { calls, intervalMs, made: [], pausedUntil: 0 }
      accounts.set(id, account)
    }
    return account
  }

  function waitMs(account: Account, urgency: Urgency): number {
    const time = now()
    const firstInInterval = account.made.findIndex((at) => at > time - account.intervalMs)
    account.made.splice(0, firstInInterval === -1 ? account.made.length : firstInInterval)
    const tooMany = account.made.length - mostOf(account, urgency)
    const room = tooMany < 0 ? 0 : (account.made[tooMany] ?? 0) + account.intervalMs - time
    return Math.max(0, room, account.pausedUntil - time)
  }

  const mostOf = ({ calls }: Account, urgency: Urgency) =>
    Math.max(1, Math.floor(calls * limit.shares[urgency]))

  return {
    /**
     * Waits until a call to this account may be made, and counts it.
     * @throws ProviderError with `retryAfterMs` if that would take too long.
     */
    async enter({ accountId, urgency }: Pick<CrmAccess, 'accountId' | 'urgency'>): Promise<void> {
      const account = accountOf(accountId)
      const endsAt = now() + longestQueueMs
      for (;;) {
        let ms = waitMs(account, urgency)
        if (ms === 0 && countShared !== undefined) {
          const key = `hubspot ${limit.of} ${accountId}`
          const intervalMs = account.intervalMs + arrivalMs
          const askedAt = now()
          ms = await countShared(key, mostOf(account, urgency), intervalMs)
          // The database may have been slow, and HubSpot may have asked for a pause meanwhile.
          if (ms === 0) ms = now() - askedAt > longestQueueMs ? slowMs : waitMs(account, urgency)
        }
        if (ms === 0) break
        if (now() + ms > endsAt) {
          throw new ProviderError('hubspot', 'read', 'unreachable', 'rate_limited', ms)
        }
        await wait(ms)
      }
      account.made.push(now())
    },

    /** Learns the limit, and how much of it is left, from an answer's headers. */
    learn(accountId: string, headers: Headers): void {
      const account = accountOf(accountId)
      const calls = positive(headers.get('X-HubSpot-RateLimit-Max'))
      const intervalMs = positive(headers.get('X-HubSpot-RateLimit-Interval-Milliseconds'))
      // Another interval than the documented ten seconds is another limit, such as that of a day.
      if (calls !== undefined && calls > 0 && intervalMs === limit.intervalMs) account.calls = calls
      const left = positive(headers.get('X-HubSpot-RateLimit-Remaining')) ?? Number.NaN
      if (left <= account.calls * almostNone) pause(account, almostNoneMs)
    },

    pause(accountId: string, ms: number): void {
      pause(accountOf(accountId), ms)
    },
  }

  function pause(account: Account, ms: number): void {
    account.pausedUntil = Math.max(account.pausedUntil, now() + ms)
  }
}

function positive(header: string | null): number | undefined {
  const value = header === null || header.trim() === '' ? Number.NaN : Number(header)
  return Number.isFinite(value) && value >= 0 ? value : undefined
}
