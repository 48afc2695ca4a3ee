import { sql } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { createBudgets } from '../../server/database/budgets.ts'
import type { OpenDatabase } from '../../server/database/open.ts'
import { callLimit } from '../../server/providers/hubspot/limits.ts'
import { createCallLimiter } from '../../server/providers/limiter.ts'
import { limit as pipedriveLimit } from '../../server/providers/pipedrive/limits.ts'
import type { Urgency } from '../../server/providers/provider.ts'
import { databaseKinds, openTestDatabase } from '../database.ts'

// The limiter waits with the fake timers.
const clock = {
  now: () => Date.now(),
  wait: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)),
}
const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms)

let limiter: ReturnType<typeof createCallLimiter>
beforeEach(() => {
  vi.useFakeTimers({ now: 0 })
  limiter = createCallLimiter(callLimit, clock)
})
afterEach(() => void vi.useRealTimers())

const access = (urgency: Urgency, accountId = '1') => ({ accountId, urgency })

/** How many calls may be made at once. */
async function room(urgency: Urgency, accountId = '1'): Promise<number> {
  for (let calls = 0; ; calls++) {
    const error = await limiter.enter(access(urgency, accountId)).catch((error) => error)
    if (error !== undefined) return calls
  }
}

const headers = (max: number, remaining: number, intervalMs = 10_000) =>
  new Headers({
    'X-HubSpot-RateLimit-Max': String(max),
    'X-HubSpot-RateLimit-Interval-Milliseconds': String(intervalMs),
    'X-HubSpot-RateLimit-Remaining': String(remaining),
  })

test('a backlog leaves room for fresh events, and a search uses only what both leave', async () => {
  expect(await room('spare')).toBe(40)
  expect(await room('backlog')).toBe(40)
  expect(await room('spare')).toBe(0)
  expect(await room('fresh')).toBe(10)
})

test('the limit is the one in HubSpot’s headers', async () => {
  limiter.learn('1', headers(190, 189))
  expect(await room('fresh')).toBe(171)
  // A day's limit says nothing about ten seconds.
  limiter.learn('2', headers(250_000, 249_000, 86_400_000))
  limiter.learn('2', new Headers({ 'X-HubSpot-RateLimit-Max': '' }))
  expect(await room('fresh', '2')).toBe(90)
})

test('while the database counts slowly, no call is made on its late word', async () => {
  const count = async () => {
    await clock.wait(1_501)
    return 0
  }
  limiter = createCallLimiter(callLimit, clock, { countCall: count })
  const refused = limiter.enter(access('fresh')).catch((error) => error)
  await advance(1_501)
  expect(await refused).toMatchObject({ reason: 'rate_limited', retryAfterMs: 1_000 })
})

describe('a CRM that names no wait', () => {
  beforeEach(() => {
    limiter = createCallLimiter(pipedriveLimit, clock)
  })
  const enter = () => limiter.enter(access('fresh'))
  const refused = (headers = {}) => limiter.refused('1', new Headers(headers)) / 1_000
  const answered = (headers = {}) => limiter.learn('1', new Headers(headers))
  /** In how many seconds a call may be made. */
  const waitS = async () => {
    const error = await enter().catch((error) => error)
    return (error?.retryAfterMs ?? 0) / 1_000
  }

  test('is asked by one call, ever more seldom, until it no longer refuses', async () => {
    const waits = []
    for (let refusals = 0; refusals < 8; refusals++) {
      await enter()
      const wait = refused()
      waits.push(wait)
      expect(await waitS()).toBe(wait)
      await advance(wait * 1_000)
    }
    expect(waits).toEqual([2, 8, 32, 128, 512, 2_048, 3_600, 3_600])
    await enter()
    expect(await waitS()).toBe(10)
    // The call got no answer.
    await advance(10_000)
    await enter()
    answered()
    expect(await room('fresh')).toBeGreaterThan(10)
    expect(refused()).toBe(2)
  })

  test('refuses many calls at once, and that is one refusal', async () => {
    for (let calls = 0; calls < 3; calls++) await enter()
    expect([refused(), refused(), refused()]).toEqual([2, 2, 2])
    await advance(2_000)
    await enter()
    expect(refused({ 'x-ratelimit-remaining': '0' })).toBe(8)
    // This one says how long.
    expect(refused({ 'Retry-After': '9' })).toBe(9)
  })

  test('answers calls from before its refusal, and the pause goes on', async () => {
    for (let calls = 0; calls < 2; calls++) await enter()
    expect(refused()).toBe(2)
    answered()
    expect(await waitS()).toBe(2)
  })

  test('may also name one', async () => {
    await enter()
    expect(refused({ 'Retry-After': '5' })).toBe(5)
  })

  test('tells its limit in two seconds, and no other limit counts as that', async () => {
    expect(await room('fresh')).toBe(72)
    answered({ 'x-ratelimit-limit': '160', 'x-ratelimit-remaining': '88' })
    await advance(2_000)
    expect(await room('fresh')).toBe(144)
    answered({ 'x-ratelimit-limit': '30000' })
    await advance(2_000)
    expect(await room('fresh')).toBe(144)
    await advance(2_000)
    // Other programs have used it.
    answered({ 'x-ratelimit-remaining': '0' })
    const entered = vi.fn()
    void enter().then(entered)
    await advance(999)
    expect(entered).not.toHaveBeenCalled()
    await advance(1)
    expect(entered).toHaveBeenCalled()
  })
})

describe.each(databaseKinds)('of a day, counted in %s,', (kind) => {
  let open: OpenDatabase
  beforeAll(async () => {
    vi.useRealTimers()
    open = await openTestDatabase(kind)
  })
  afterAll(() => open.close())

  type Limiter = typeof limiter
  let one: Limiter
  let other: Limiter
  let accountId = 0
  /** What the database was asked. */
  let asked: Array<Promise<unknown>> = []
  let isDown = false
  beforeEach(() => {
    // A database needs the other timers.
    vi.useRealTimers()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 4, 5, 12) })
    accountId++
    const newProcess = () => {
      const time = () => sql`${new Date().toISOString()}::timestamptz`
      const budgets = createBudgets(open.database, time)
      const spend: typeof budgets = (...spending) => {
        const spent = isDown ? Promise.reject(new Error('no database')) : budgets(...spending)
        asked.push(spent)
        return spent
      }
      return createCallLimiter(pipedriveLimit, clock, { spend })
    }
    one = newProcess()
    other = newProcess()
    asked = []
    isDown = false
  })
  const hoursLater = (hours: number) => vi.setSystemTime(Date.now() + hours * 3_600_000)
  const of = (urgency: Urgency) => access(urgency, `${accountId}`)
  /** Spends tokens. @returns the error, if the call may not be made. */
  const spend = (tokens: number, urgency: Urgency = 'spare', process = one) =>
    process.enter(of(urgency), tokens).catch((error) => error)
  /** An answer says what is left, and that is stored. Headers that are undefined are missing. */
  const hear = async (most: number | undefined, left: number | undefined, process = one) => {
    const headers = new Headers()
    if (most !== undefined) headers.set('x-daily-ratelimit-token-limit', `${most}`)
    if (left !== undefined) headers.set('x-daily-ratelimit-token-remaining', `${left}`)
    process.learn(`${accountId}`, headers)
    await Promise.allSettled(asked)
  }
  const isKept = (retryAfterMs = 3_600_000) => ({
    ...{ provider: 'pipedrive', kind: 'unreachable', reason: 'budget', retryAfterMs },
  })

  test('all processes together leave a fifth to events', async () => {
    expect(await spend(12_000)).toBeUndefined()
    expect(await spend(12_000, 'backlog', other)).toBeUndefined()
    expect(await spend(1)).toMatchObject(isKept())
    expect(await spend(1, 'spare', other)).toMatchObject(isKept())
    // What was refused is not spent, and takes no room.
    for (let calls = 0; calls < 100; calls++) expect(await spend(1)).toMatchObject(isKept())
    expect(await spend(3_000, 'backlog')).toBeUndefined()
    expect(await spend(3_000, 'fresh', other)).toBeUndefined()
    // The count may be wrong. Then the CRM refuses.
    expect(await spend(1, 'fresh')).toBeUndefined()
  })

  test('all is there again at midnight', async () => {
    await spend(24_000)
    await hear(30_000, 1_000)
    hoursLater(11.9)
    // One call asks what is left.
    expect(await spend(1)).toBeUndefined()
    expect(await spend(1)).toMatchObject(isKept(360_000))
    hoursLater(0.1)
    expect(await spend(24_000, 'spare', other)).toBeUndefined()
    expect(await spend(1)).toMatchObject(isKept())
  })

  test('counts what other programs spend, as far as the headers say it', async () => {
    await spend(1_000)
    await hear(30_000, 6_100)
    expect(await spend(100, 'spare', other)).toBeUndefined()
    expect(await spend(1)).toMatchObject(isKept())
    // The company has another subscription now.
    await hear(300_000, 270_000)
    expect(await spend(100_000, 'spare', other)).toBeUndefined()
    await hear(undefined, 60_010, other)
    expect(await spend(10)).toBeUndefined()
    expect(await spend(1)).toMatchObject(isKept())
    // Calls that got no answer were counted, but cost nothing.
    await spend(250_000, 'fresh')
    expect(await spend(1)).toMatchObject(isKept())
    await hear(300_000, 270_000)
    expect(await spend(1)).toBeUndefined()
    await hear(300_000, 59_000)
    expect(await spend(1)).toMatchObject(isKept())
    // Only the budget is told.
    await hear(200_000, undefined)
    expect(await spend(1, 'spare', other)).toBeUndefined()
  })

  test('is asked about now and then, because the CRM’s may begin at another time', async () => {
    await spend(1_000)
    await hear(30_000, 1_000)
    hoursLater(0.9)
    expect(await spend(1)).toMatchObject(isKept())
    hoursLater(0.1)
    expect(await spend(1)).toBeUndefined()
    expect(await spend(1)).toMatchObject(isKept())
    await hear(30_000, 29_000)
    expect(await spend(1)).toBeUndefined()
  })

  test('asks no question for what is kept: the next fresh event asks after a refusal', async () => {
    await spend(24_000)
    one.refused(`${accountId}`, new Headers())
    vi.setSystemTime(Date.now() + 2_000)
    expect(await spend(1)).toMatchObject(isKept())
    expect(await spend(1, 'fresh')).toBeUndefined()
    expect(await spend(1, 'fresh')).toMatchObject({ reason: 'rate_limited', retryAfterMs: 10_000 })
  })

  test('costs one statement for each call, and one if others have spent much', async () => {
    for (let calls = 1; calls <= 20; calls++) {
      await spend(10, 'fresh', calls % 2 === 0 ? one : other)
      // Somebody else spends one token meanwhile.
      await hear(30_000, 30_000 - calls * 11, calls % 2 === 0 ? one : other)
    }
    // The first answer says what nobody knew.
    expect(asked).toHaveLength(21)
    await hear(30_000, 25_000)
    await hear(30_000, 25_000)
    expect(asked).toHaveLength(22)
  })

  test('needs no database that stores what the CRM says', async () => {
    await spend(10)
    isDown = true
    await hear(30_000, 1_000)
    await expect(one.enter(of('fresh'))).rejects.toThrow('no database')
    isDown = false
    await hear(30_000, 1_000)
    expect(await spend(1)).toMatchObject(isKept())
  })
})
