import { and, eq, gt, sql } from 'drizzle-orm'
import { describe, expect, test, vi } from 'vitest'
import { channels } from '../../server/database/schema.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { dealsIn } from './hubspot-webhook.ts'
import {
  answerPosts,
  backend,
  calls,
  channel,
  connect,
  minute,
  outside,
  posts,
  range,
  shareBackend,
  soon,
  team,
  tell,
} from './shared.ts'

const said = () => posts().flatMap(dealsIn)
const refusal = (error: string) => ({ status: 200, body: JSON.stringify({ ok: false, error }) })
const refusesFor = (answer: { status: number; body?: string }, ...deals: number[]) =>
  answerPosts((post) => (dealsIn(post).some((deal) => deals.includes(deal)) ? answer : undefined))
const isOf = (path: string, ...deals: number[]) =>
  deals.some((deal) => path.includes(`0-3/${deal}?`))

describe('a message that fails', () => {
  // Whatever comes within the test has not waited for another try of it.
  shareBackend('PGlite', { times: { ...relayTimes, firstRetryMs: 20 * minute } })

  test.each([
    ['the chat answers it with an error of its server', () => refusesFor({ status: 500 }, 7)],
    ['a proxy refuses it with a page', () => refusesFor({ status: 403, body: '<html>' }, 7)],
    [
      'the CRM cannot read its deal',
      () => {
        outside.answerRead = (path) => (isOf(path, 7) ? { status: 500 } : undefined)
      },
    ],
  ])('lets the others go: %s', async (_, fail) => {
    const userId = await connect()
    fail()
    await tell([7, 8, 9])
    await vi.waitFor(() => expect(said()).toEqual([8, 9]), soon)
    // It fails alone, so what comes later does not wait, either.
    await tell([10])
    await vi.waitFor(() => expect(said()).toEqual([8, 9, 10]), soon)
    expect(await backend.outcomes(userId)).toContainEqual(['sent', null])
    await backend.disconnect(userId, 'slack')
  })

  test('while all fail, is followed by one further try; then all keep their order', async () => {
    const userId = await connect()
    answerPosts(() => ({ status: 500 }))
    await tell(range(1, 5))
    const isOwn = eq(channels.id, `${team}/${channel}`)
    const isResting = and(isOwn, eq(channels.failing, true), gt(channels.dueAt, sql`now()`))
    const rests = () =>
      vi.waitFor(async () => {
        expect(await backend.database.$count(channels, isResting)).toBe(1)
      }, soon)
    await rests()
    await tell([6])
    await rests()
    expect(calls().flatMap(dealsIn)).toEqual([1, 2])
    await backend.disconnect(userId, 'slack')
  })

  test.each([
    ['an unknown code', refusal('a_new_error'), 'a_new_error'],
    ['a webhook’s unknown 403', { status: 403 }, 'http_403'],
  ])('for %s gets one try as plain text, and is dead', async (_, answer, reason) => {
    const userId = await connect()
    refusesFor(answer, 7)
    await tell([7, 8])
    const ended = [
      ['dead', reason],
      ['sent', null],
    ]
    await vi.waitFor(async () => expect(await backend.outcomes(userId)).toEqual(ended), soon)
    expect(said()).toEqual([8])
    expect(calls().flatMap(dealsIn)).toEqual([7, 7, 8])
    expect(JSON.stringify(await backend.read(userId, 'notifications/activity'))).toContain(
      `Slack did not accept the message (${reason})`,
    )
  })
})

describe('a digest that fails', () => {
  shareBackend('PGlite', { times: { ...relayTimes, firstRetryMs: 1, pollMs: 20 } })

  test('is repeated as it was after its answer was lost, so that a chat knows its id again', async () => {
    const userId = await connect()
    answerPosts(async () => {
      if (calls().length > 2) return
      if (calls().length === 1) await tell([21, 22])
      // A gateway's, and then the chat's own.
      return { status: calls().length === 1 ? 504 : 500 }
    })
    await tell(range(1, 20))
    await backend.settled()
    expect(calls().map(dealsIn)).toEqual([...Array(3).fill(range(1, 20)), [21], [22]])
    expect(new Set(calls().map(({ id }) => id)).size).toBe(3)
    await backend.disconnect(userId, 'slack')
  })

  test('loses only the change that fails', async () => {
    const userId = await connect()
    refusesFor({ status: 500 }, 7)
    await tell(range(1, 30))
    await vi.waitFor(() => expect(said()).toHaveLength(29), { ...soon, timeout: 60_000 })
    expect(said()).not.toContain(7)
    await backend.disconnect(userId, 'slack')
  })
})
