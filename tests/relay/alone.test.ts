import { and, eq, gt, sql } from 'drizzle-orm'
import { describe, expect, test, vi } from 'vitest'
import { channels } from '../../server/database/schema.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { dealsIn, stageChange } from './hubspot-webhook.ts'
import {
  answerPosts,
  backend,
  calls,
  channel,
  connect,
  minute,
  outside,
  portal,
  posts,
  range,
  shareBackend,
  soon,
  team,
  tell,
} from './shared.ts'

/** These get one message a second. */
const patient = { ...soon, timeout: 50_000 }
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
    [
      'the chat answers it with an error of its server',
      () => refusesFor({ status: 500 }, 7, 17, 27),
    ],
    [
      'a proxy refuses it with a page',
      () => refusesFor({ status: 403, body: '<html>' }, 7, 17, 27),
    ],
    [
      'the CRM cannot read its deal',
      () => {
        outside.answerRead = (path) => (isOf(path, 7, 17, 27) ? { status: 500 } : undefined)
      },
    ],
  ])('lets the others go: %s', async (_, fail) => {
    const userId = await connect()
    fail()
    await tell([7, 17, 27, 8, 9])
    await vi.waitFor(() => expect(said()).toEqual([8, 9]), patient)
    // They fail alone, so what comes later does not wait, either, also if its change is older.
    await tell([10])
    await vi.waitFor(() => expect(said()).toEqual([8, 9, 10]), soon)
    await backend.tell([stageChange(11, { portal, at: Date.now() - minute })])
    await vi.waitFor(() => expect(said()).toEqual([8, 9, 10, 11]), soon)
    await backend.disconnect(userId, 'slack')
  })

  test('while all fail, is followed by one further try; then all keep their order', async () => {
    const userId = await connect()
    answerPosts(() => ({ status: 500 }))
    // The chat says no more to the question whether it works.
    outside.answerRead = (path) => (path.startsWith('/slack') ? { status: 500 } : undefined)
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

  test('for an unknown code gets one try as plain text, and is dead', async () => {
    const [answer, reason] = [refusal('a_new_error'), 'a_new_error']
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
    const digests = () => calls().filter((call) => dealsIn(call).length > 1)
    answerPosts(async (call) => {
      const tries = dealsIn(call).length > 1 ? digests().length : 3
      if (tries > 2) return
      if (tries === 1) await tell([21, 22])
      // A gateway's, and then the chat's own.
      return { status: tries === 1 ? 504 : 500 }
    })
    await tell(range(1, 20))
    await vi.waitFor(() => expect(said().toSorted((a, b) => a - b)).toEqual(range(1, 22)), soon)
    expect(digests().map(dealsIn)).toEqual(Array(3).fill(range(1, 20)))
    expect(new Set(digests().map(({ id }) => id)).size).toBe(1)
    await backend.disconnect(userId, 'slack')
  })

  test('loses only the change that fails', async () => {
    const userId = await connect()
    refusesFor({ status: 500 }, 7)
    await tell(range(1, 10))
    await vi.waitFor(() => expect(said()).toHaveLength(9), patient)
    expect(said()).not.toContain(7)
    await backend.disconnect(userId, 'slack')
  })
})
