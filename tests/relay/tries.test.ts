import { eq, sql } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { deliveries } from '../../server/database/schema.ts'
import { retryAfterMs } from '../../server/relay/send/failure.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { openTestDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { intercepted } from './intercepted.ts'
import { type Outside, openOutside } from './outside.ts'

describe('the wait after a failed try', () => {
  const tries = Array.from({ length: 19 }, (_, n) => n + 1)
  const wait = (random: number) => (n: number) => retryAfterMs(n, 1_000, () => random)

  test('doubles with each, up to a quarter of an hour', () => {
    const seconds = tries.map(wait(1)).map((ms) => ms / 1_000)
    expect(seconds.slice(0, 10)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    expect(new Set(seconds.slice(10))).toEqual(new Set([900]))
  })

  test('is half certain and half chance, so that a crowd of tries spreads out', () => {
    for (const n of tries) {
      const most = wait(1)(n)
      expect([wait(0)(n), wait(0.5)(n)]).toEqual([most / 2, (most * 3) / 4])
      const chances = Array.from({ length: 50 }, () => retryAfterMs(n, 1_000))
      expect(Math.min(...chances)).toBeGreaterThanOrEqual(most / 2)
      expect(Math.max(...chances)).toBeLessThanOrEqual(most)
      expect(new Set(chances).size).toBeGreaterThan(10)
    }
  })
})

describe('twenty failed tries', () => {
  let open: OpenDatabase
  let outside: Outside
  let backend: Backend

  beforeAll(async () => {
    open = await openTestDatabase('PGlite')
    outside = await openOutside()
    // The first wait is so short that all twenty together take half a second.
    const times = { ...relayTimes, firstRetryMs: 0.001, pollMs: 20 }
    backend = await startBackend(open, outside, { times })
  })
  afterAll(async () => {
    await backend.stop()
    await open.close()
    await outside.close()
  })

  test('and the delivery is dead, with the last reason; the next one has its own', async () => {
    const userId = await backend.connect({ portal: 1, channel: 'C1' })
    outside.answerRead = (path) => (path.includes('0-3/1?') ? { status: 502 } : undefined)
    const at = Date.now() - 10_000
    await backend.tell([
      stageChange(1, { portal: 1, at }),
      stageChange(2, { portal: 1, at: at + 1 }),
    ])
    await backend.settled()
    expect(outside.reads.filter((path) => path.includes('0-3/1?'))).toHaveLength(20)
    expect(await backend.outcomes(userId)).toEqual([
      ['dead', 'hubspot_status_502'],
      ['sent', null],
    ])
    const waits = backend.lines
      .map((line) => JSON.parse(line))
      .filter(({ event }) => event === 'delivery put off')
    expect(waits.map(({ tries }) => tries)).toEqual(Array.from({ length: 19 }, (_, n) => n + 1))
    expect(waits.at(-1).afterMs).toBeGreaterThan(100)
  })
})

describe('a failing database', () => {
  let open: OpenDatabase
  let outside: Outside
  let backend: Backend
  let losesClaims = false
  let lost = 0

  beforeAll(async () => {
    open = await openTestDatabase('PGlite')
    outside = await openOutside()
    const own = intercepted(open, (statement) => {
      if (!losesClaims || !statement.includes('for share')) return
      lost++
      throw new Error('Connection terminated unexpectedly')
    })
    backend = await startBackend(own, outside)
  })
  afterEach(works)
  afterAll(async () => {
    await backend.stop()
    await open.close()
    await outside.close()
  })

  const delivery = async (userId: string) => {
    const { state, attempts, reason } = deliveries
    const ofUser = eq(deliveries.userId, userId)
    return await open.database.select({ state, attempts, reason }).from(deliveries).where(ofUser)
  }
  const channelFailures = () =>
    backend.lines.filter((line) => line.includes('"channel failed"')).length

  /** A channel rests for ten seconds after an error, and a claim lasts for some seconds. */
  async function endWaits(): Promise<void> {
    await open.database.execute(sql`update channels set due_at = now()`)
    await open.database.execute(
      sql`update deliveries set sending_until = now() where sending_until > now()`,
    )
    backend.relay.wake()
  }

  async function fails(code: string): Promise<void> {
    await open.database.execute(
      sql.raw(`create function fail() returns trigger language plpgsql
               as 'begin raise exception using errcode = ''${code}''; end'`),
    )
    await open.database.execute(
      sql`create trigger fail before update on deliveries for each row
          when (new.sending_until is not null) execute function fail()`,
    )
  }
  async function works(): Promise<void> {
    await open.database.execute(sql`drop function if exists fail cascade`)
  }

  test.each([
    ['a statement takes too long', '57014', 1],
    ['the server shuts down', '57P01', 2],
    ['no lock is free', '55P03', 3],
  ])('uses up no try: %s', async (_, code, portal) => {
    const userId = await backend.connect({ portal, channel: `C${portal}` })
    await fails(code)
    const before = channelFailures()
    await backend.tell([stageChange(1, { portal })])
    await vi.waitFor(() => expect(channelFailures()).toBe(before + 1), 5_000)
    expect(await delivery(userId)).toEqual([{ state: 'pending', attempts: 0, reason: null }])
    await works()
    await vi.waitFor(endWaits)
    await backend.settled()
    expect(await delivery(userId)).toEqual([{ state: 'sent', attempts: 1, reason: null }])
  })

  test('uses up no try if the answer about a claim is lost', async () => {
    const userId = await backend.connect({ portal: 4, channel: 'C4' })
    losesClaims = true
    await backend.tell([stageChange(1, { portal: 4 })])
    await vi.waitFor(async () => {
      await endWaits()
      expect(lost).toBeGreaterThan(2)
    }, 5_000)
    losesClaims = false
    await vi.waitFor(async () => {
      await endWaits()
      expect(await delivery(userId)).toEqual([{ state: 'sent', attempts: 1, reason: null }])
    }, 5_000)
    expect(outside.posts.filter((post) => post.channel === 'C4')).toHaveLength(1)
  })

  test('does not include a statement that always fails: such a statement uses up tries', async () => {
    const userId = await backend.connect({ portal: 5, channel: 'C5' })
    await fails('22003')
    await backend.tell([stageChange(1, { portal: 5 })])
    await vi.waitFor(
      async () =>
        expect(await delivery(userId)).toEqual([
          { state: 'pending', attempts: expect.any(Number), reason: 'internal_error' },
        ]),
      5_000,
    )
    await works()
    await backend.settled()
  })
})
