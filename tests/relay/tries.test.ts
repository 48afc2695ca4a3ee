import { sql } from 'drizzle-orm'
import { expect, test, vi } from 'vitest'
import { dealEvents } from '../../server/database/schema.ts'
import { retryAfterMs } from '../../server/relay/send/end.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { backend, connect, outside, range, shareBackend, tell } from './shared.ts'

test('the wait after a failed try doubles with each, up to a quarter of an hour; half of it is chance', () => {
  const seconds = (random: number) =>
    range(1, 19).map((n) => retryAfterMs(n, 1_000, () => random) / 1_000)
  const longest = [...[1, 2, 4, 8, 16, 32, 64, 128, 256, 512], ...Array(9).fill(900)]
  expect(seconds(1)).toEqual(longest)
  expect(seconds(0)).toEqual(longest.map((wait) => wait / 2))
})

// The first wait is so short that all twenty tries together take half a second.
shareBackend('PGlite', { times: { ...relayTimes, firstRetryMs: 0.001, pollMs: 20 } })

test('after twenty failed tries, the delivery is dead, with the last reason; the next one has its own', async () => {
  const userId = await connect()
  outside.answerRead = (path) => (path.includes('0-3/7?') ? { status: 502 } : undefined)
  await tell([7, 8])
  await backend.settled()
  expect(outside.reads.filter((path) => path.includes('0-3/7?'))).toHaveLength(20)
  expect(await backend.outcomes(userId)).toEqual([
    ['dead', 'hubspot_status_502'],
    ['sent', null],
  ])
  const waits = backend.lines
    .map((line) => JSON.parse(line))
    .filter(({ event }) => event === 'delivery put off')
  expect(waits.map(({ tries }) => tries)).toEqual(range(1, 19))
  expect(waits.at(-1).afterMs).toBeGreaterThan(100)
})

const isDown = { status: 502 }

test('while HubSpot is down, the tries go on, and the message comes at last', async () => {
  const userId = await connect()
  outside.answerRead = () => isDown
  await tell([7])
  await vi.waitFor(() => expect(outside.reads.length).toBeGreaterThan(22), { timeout: 20_000 })
  outside.answerRead = () => undefined
  await backend.settled()
  expect(await backend.outcomes(userId)).toEqual([['sent', null]])
})

test('a provider that is down for a day ends the tries', async () => {
  const userId = await connect()
  outside.answerRead = () => isDown
  await tell([7])
  const aDayAgo = sql`now() - interval '25 hours'`
  await backend.database.update(dealEvents).set({ receivedAt: aDayAgo, occurredAt: aDayAgo })
  await backend.settled()
  expect(await backend.outcomes(userId)).toEqual([['dead', 'hubspot_status_502']])
})
