import { setTimeout as delay } from 'node:timers/promises'
import { createCache } from '../cache.ts'
import { askedWaitMs } from './calls.ts'
import { type CrmAccess, longestWaitMs, type Urgency } from './provider.ts'
import { ProviderError } from './provider-error.ts'
import type { CrmId } from './registry.ts'

/** Counts a call of any process (`CountCall` in database/call-counter.ts). */
type CountSharedCall = (key: string, most: number, intervalMs: number) => Promise<number>
/** Counts what a call costs of an account's day (`Spend` in database/budgets.ts). */
type SpendShared = (
  crm: CrmId,
  accountId: string,
  spending: { tokens: number; keep?: number | undefined; most: number; heard?: Day | undefined },
) => Promise<Spent>

/** What all processes count together on one database. */
export interface SharedCounts {
  /** Without it, this process is the only one. */
  countCall?: CountSharedCall | undefined
  /** Without it, days have no limit. */
  spend?: SpendShared | undefined
}

/** What a CRM says of an account's day, in tokens: its budget, and what all programs have left of it. */
interface Day {
  most?: number | undefined
  left?: number | undefined
}

interface Spent {
  /** False: too little is left, and nothing was counted. */
  counted: boolean
  most: number
  spent: number
  /** What the CRM last said is left today, without what was spent since; null if it has not said it. */
  remaining: number | null
  untilMidnightMs: number
}

/** What the headers of an answer say. Each of these may be missing. */
interface Heard {
  /** How many calls the account may get in an interval, and how many of them are left. */
  calls?: number | undefined
  left?: number | undefined
  day?: Day
}

/** How many calls an account may get in any interval, and which share each kind of call may use. */
export interface Limit {
  crm: CrmId
  /** What is limited, in the key under which all processes count. */
  of: string
  calls: number
  intervalMs: number
  shares: Record<Urgency, number>
  /** Reads the headers of an answer. Missing if they say nothing about this limit. */
  read?: (headers: Headers) => Heard
  /** The tokens that an account may spend in a day, until the headers name another number. Missing: a day has no limit. */
  dayTokens?: number
}

/**
 * A call that would have to wait longer is not made. The relay tries again later. A message about one event needs up to
 * seven calls (docs/server/hubspot.md lists them), and a stopping server waits for this work for 9.5 seconds.
 */
const longestQueueMs = 1_500
/** When the relay tries again if the database took longer than that to count a call. */
const slowMs = 1_000
/** Calls of two processes may arrive closer together than they were counted, by at most this time. */
const arrivalMs = 500
/** If other programs used so many calls that only this share of the limit is left, calls wait. */
const almostNone = 0.05
const almostNoneMs = 1_000
/** This share of a day's budget is kept for events. */
export const keptForEvents = 0.2
/**
 * What the CRM says is left of a day is stored if it differs from our count by this share of the budget. Else each call
 * would write twice.
 */
const ofNote = 0.01
/** The pause after a 429 that names no wait. Each further one is four times as long, so that a day without budget costs few calls. */
const firstPauseMs = 2_000
const pauseGrowth = 4
/** After a pause, one call shows whether the CRM answers again. The others wait for it, but not longer than this. */
const askingMs = 10_000
/** More accounts than this process can call within an interval. */
const mostAccounts = 20_000

interface Account {
  calls: number
  intervalMs: number
  /** When the calls of the last interval were made, the oldest first, by `now`. */
  made: number[]
  /** No call before this time. */
  pausedUntil: number
  /** How many 429 came one after another, without any other answer. */
  refusals: number
  /** A call asks whether the refusals are over. The others wait for its answer. */
  isAsking: boolean
  /** The day when it was last counted. */
  day: Spent | undefined
  /** When the CRM last said what is left of the day, by `now`. */
  heardAt: number
}

/**
 * Keeps the calls to each account below the CRM's limit, so that the CRM refuses none with 429. The
 * more urgent a call, the more of the limit it may use. So fresh events find room during a backlog.
 * @param now is in ms and never goes back.
 */
export function createCallLimiter(
  limit: Limit,
  { now, wait }: { now: () => number; wait: (ms: number) => Promise<unknown> } = {
    now: () => performance.now(),
    wait: delay,
  },
  { countCall, spend }: SharedCounts = {},
) {
  const { crm, dayTokens } = limit
  const accounts = createCache<Account>(mostAccounts)

  function accountOf(id: string): Account {
    let account = accounts.get(id)
    if (account === undefined) {
      const { calls, intervalMs } = limit
      account = {
        ...{ calls, intervalMs, made: [], pausedUntil: 0, refusals: 0, isAsking: false },
        ...{ day: undefined, heardAt: now() },
      }
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

  /** Counts what a call costs. @throws ProviderError if what is left is kept for events. */
  async function pay(accountId: string, account: Account, urgency: Urgency, tokens: number) {
    if (dayTokens === undefined || spend === undefined) return
    const keep = urgency === 'spare' ? keptForEvents : undefined
    let day = await spend(crm, accountId, { tokens, keep, most: dayTokens })
    // The CRM has said that too little is left, but its day may begin at another time. So now and then, one call is made,
    // and its answer says what is left.
    if (!day.counted && day.remaining !== null && now() - account.heardAt >= longestWaitMs) {
      account.heardAt = now()
      day = await spend(crm, accountId, { tokens, most: dayTokens })
    }
    account.day = day
    if (day.counted) return
    const ms = Math.min(day.untilMidnightMs, longestWaitMs)
    throw new ProviderError(crm, 'read', 'unreachable', 'budget', ms)
  }

  /** Stores what the CRM says of the day, if it is new. If that fails, the next answer says it again. */
  async function hear(accountId: string, account: Account, heard: Day): Promise<void> {
    const { day } = account
    const isSaid = (heard.most ?? heard.left) !== undefined
    if (dayTokens === undefined || spend === undefined || !isSaid) return
    account.heardAt = now()
    const most = heard.most ?? day?.most ?? dayTokens
    const isKnown =
      most === day?.most &&
      (heard.left === undefined ||
        (day.remaining !== null && Math.abs(heard.left - day.remaining) < most * ofNote))
    if (isKnown) return
    try {
      account.day = await spend(crm, accountId, { tokens: 0, most: dayTokens, heard })
    } catch {}
  }

  return {
    /**
     * Waits until a call to this account may be made, and counts it.
     * @param tokens what it costs of the account's day, if the CRM counts that.
     * @throws ProviderError with `retryAfterMs` if that would take too long: its reason is `budget` if what is left of the
     * day is kept for events.
     */
    async enter(
      { accountId, urgency }: Pick<CrmAccess, 'accountId' | 'urgency'>,
      tokens = 1,
    ): Promise<void> {
      const account = accountOf(accountId)
      const endsAt = now() + longestQueueMs
      for (;;) {
        let ms = waitMs(account, urgency)
        if (ms === 0 && countCall !== undefined) {
          const key = `${crm} ${limit.of} ${accountId}`
          const intervalMs = account.intervalMs + arrivalMs
          const askedAt = now()
          ms = await countCall(key, mostOf(account, urgency), intervalMs)
          // The database may have been slow, and the CRM may have asked for a pause meanwhile.
          if (ms === 0) ms = now() - askedAt > longestQueueMs ? slowMs : waitMs(account, urgency)
        }
        if (ms === 0) break
        if (now() + ms > endsAt) {
          throw new ProviderError(crm, 'read', 'unreachable', 'rate_limited', ms)
        }
        await wait(ms)
      }
      // It is counted before it is paid: other calls must not find the same room meanwhile.
      const madeAt = now()
      account.made.push(madeAt)
      const asks = account.refusals > 0
      if (asks) {
        account.isAsking = true
        pause(account, askingMs)
      }
      try {
        await pay(accountId, account, urgency, tokens)
        // The CRM may have asked for a pause while the database counted.
        const pausedMs = account.pausedUntil - now()
        if (!asks && pausedMs > 0) {
          throw new ProviderError(crm, 'read', 'unreachable', 'rate_limited', pausedMs)
        }
      } catch (error) {
        // No call was made.
        account.made.splice(account.made.indexOf(madeAt), 1)
        if (asks && account.isAsking) {
          account.isAsking = false
          account.pausedUntil = madeAt
        }
        throw error
      }
    },

    /**
     * Learns the limit, and how much of it is left, from the headers of an answer other than 429. If a call asks after
     * a pause, the pause is over.
     */
    learn(accountId: string, headers: Headers): void {
      const account = accountOf(accountId)
      // Only while a call asks, an answer ends the pause. Those that arrive before it asks are of older calls.
      if (account.isAsking) {
        account.pausedUntil = now()
        account.refusals = 0
        account.isAsking = false
      }
      learn(accountId, account, headers)
    },

    /**
     * Says that a call was answered with 429: learns from its headers, and pauses the account.
     * @returns the rest of the pause, in ms. It lasts as long as Retry-After says. Without that, each further 429 makes it
     * longer.
     */
    refused(accountId: string, headers: Headers): number {
      const account = accountOf(accountId)
      // Calls that were made before the pause say nothing new, but for their Retry-After.
      const isNew = account.isAsking || account.pausedUntil <= now()
      const ms = isNew ? Math.min(firstPauseMs * pauseGrowth ** account.refusals, longestWaitMs) : 0
      if (isNew) {
        account.pausedUntil = now()
        account.refusals++
        account.isAsking = false
      }
      learn(accountId, account, headers)
      pause(account, askedWaitMs(headers, ms))
      return account.pausedUntil - now()
    },

    pause(accountId: string, ms: number): void {
      pause(accountOf(accountId), ms)
    },
  }

  function learn(accountId: string, account: Account, headers: Headers): void {
    const { calls, left, day } = limit.read?.(headers) ?? {}
    if (calls !== undefined && calls > 0) account.calls = calls
    if (left !== undefined && left <= account.calls * almostNone) pause(account, almostNoneMs)
    if (day !== undefined) void hear(accountId, account, day)
  }

  function pause(account: Account, ms: number): void {
    account.pausedUntil = Math.max(account.pausedUntil, now() + ms)
  }
}
