import { sql } from 'drizzle-orm'
import { expect, onTestFinished, test, vi } from 'vitest'
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

test.each([
  [
    'knows no ids gets a message five times after answers were lost, and it is dead',
    false,
    'TIMEOUT',
    5,
  ],
  ['knows ids gets it again until it answers', true, 'TIMEOUT', 22],
  ['is not reached gets it when it is, also without ids', false, 'ECONNREFUSED', 22],
])('a chat that cannot be asked and %s', async (_, knowsIds, code, most) => {
  const { slack } = backend.providers
  const own = { ...slack }
  onTestFinished(() => void Object.assign(slack, own))
  let posts = 0
  const reason = 'unreachable'
  Object.assign(slack, {
    check: undefined,
    pace: { channelMs: 1, perSecond: 1_000, burst: 1_000 },
    knowsIds: knowsIds || undefined,
    post: async () => (++posts < 22 ? { kind: 'failed', reason, code } : { kind: 'posted' }),
  })
  const userId = await connect()
  await tell([7])
  await backend.settled()
  expect(posts).toBe(most)
  expect(await backend.outcomes(userId)).toEqual([most < 22 ? ['dead', reason] : ['sent', null]])
})
