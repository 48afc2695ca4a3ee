import { eq, sql } from 'drizzle-orm'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { deliveries } from '../../server/database/schema.ts'
import { retryAfterMs } from '../../server/relay/send/deliver.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { backend, connect, outside, shareBackend, tell } from './shared.ts'

test('the wait after a failed try doubles with each, up to a quarter of an hour; half of it is chance', () => {
  const tries = Array.from({ length: 19 }, (_, n) => n + 1)
  const seconds = (random: number) => tries.map((n) => retryAfterMs(n, 1_000, () => random) / 1_000)
  const longest = [...[1, 2, 4, 8, 16, 32, 64, 128, 256, 512], ...Array(9).fill(900)]
  expect(seconds(1)).toEqual(longest)
  expect(seconds(0)).toEqual(longest.map((wait) => wait / 2))
  // A crowd of tries spreads out.
  const chances = Array.from({ length: 50 }, () => retryAfterMs(1, 1_000))
  expect(new Set(chances).size).toBeGreaterThan(10)
})

// The first wait is so short that all twenty tries together take half a second.
shareBackend('PGlite', { times: { ...relayTimes, firstRetryMs: 0.001, pollMs: 20 } })

test('after twenty failed tries, the delivery is dead, with the last reason; the next one has its own', async () => {
  const userId = await connect()
  outside.answerRead = (path) => (path.includes('0-3/1?') ? { status: 502 } : undefined)
  await tell([1, 2])
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

describe('a failing database', () => {
  afterEach(works)

  const delivery = async (userId: string) => {
    const { state, attempts, reason } = deliveries
    const ofUser = eq(deliveries.userId, userId)
    return await backend.database.select({ state, attempts, reason }).from(deliveries).where(ofUser)
  }
  const channelFailures = () =>
    backend.lines.filter((line) => line.includes('"channel failed"')).length

  async function fails(code: string): Promise<void> {
    await backend.database.execute(
      sql.raw(`create function fail() returns trigger language plpgsql
               as 'begin raise exception using errcode = ''${code}''; end'`),
    )
    await backend.database.execute(
      sql`create trigger fail before update on deliveries for each row
          when (new.sending_until is not null) execute function fail()`,
    )
  }
  async function works(): Promise<void> {
    await backend.database.execute(sql`drop function if exists fail cascade`)
  }

  test.each([
    ['a statement takes too long', '57014'],
    ['the server shuts down', '57P01'],
    ['no lock is free', '55P03'],
  ])('uses up no try: %s', async (_, code) => {
    const userId = await connect()
    await fails(code)
    const before = channelFailures()
    await tell([1])
    await vi.waitFor(() => expect(channelFailures()).toBe(before + 1), 5_000)
    expect(await delivery(userId)).toEqual([{ state: 'pending', attempts: 0, reason: null }])
    await works()
    // A channel rests for ten seconds after an error.
    await vi.waitFor(() => backend.database.execute(sql`update channels set due_at = now()`))
    backend.relay.ring()
    await backend.settled()
    expect(await delivery(userId)).toEqual([{ state: 'sent', attempts: 1, reason: null }])
  })

  test('does not include a statement that always fails: such a statement uses up tries', async () => {
    const userId = await connect()
    await fails('22003')
    await tell([1])
    const failed = [{ state: 'dead', attempts: 20, reason: 'internal_error' }]
    await vi.waitFor(async () => expect(await delivery(userId)).toEqual(failed), 10_000)
  })
})
