import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { callLimit } from '../../server/providers/hubspot/limits.ts'
import { createCallLimiter } from '../../server/providers/limiter.ts'
import type { Urgency } from '../../server/providers/provider.ts'

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
