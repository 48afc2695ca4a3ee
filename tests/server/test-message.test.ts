import { eq } from 'drizzle-orm'
import * as v from 'valibot'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { testAnswer } from '../../contract/features/test-message.ts'
import { dealEvents, deliveries, rules } from '../../server/database/schema.ts'
import { databaseKinds } from '../database.ts'
import {
  answerPosts,
  backend,
  channel,
  connect,
  posts,
  refusePosts,
  shareBackend,
} from '../relay/shared.ts'

const path = '/api/notifications/test'

describe.each(databaseKinds)('a test message on %s', (kind) => {
  let userId = ''
  let clock = Date.now()
  /** How often a call has looked at the clock, as it does each time before it waits on. */
  let looks = 0
  const now = () => {
    looks += 1
    return new Date(clock)
  }
  shareBackend(kind, { now })
  beforeEach(async () => {
    userId = await connect()
  })

  async function sendTest(user = userId, init: RequestInit = {}) {
    const answer = await backend.call(user, path, { method: 'POST', ...init })
    return { status: answer.status, headers: answer.headers, body: await answer.json() }
  }

  const refused = (status: number, code: string, message: string) => ({
    status,
    body: { error: { code, message } },
  })

  const deliveriesOf = (user: string) =>
    backend.database
      .select()
      .from(deliveries)
      .innerJoin(dealEvents, eq(dealEvents.id, deliveries.eventId))
      .where(eq(deliveries.userId, user))

  test('arrives in the channel, marked as a test, and the answer names the channel', async () => {
    // It needs no rule.
    await backend.database.delete(rules).where(eq(rules.userId, userId))
    const { status, body } = await sendTest()
    expect(status).toBe(200)
    expect(body).toEqual({ state: 'sent', channel: `#${channel}` })
    expect(posts().map(({ text }) => text)).toEqual(['🧪 Test message from Dealbell'])
    expect(posts()[0]?.blocks).toContain('Test message from Dealbell')
    expect(await deliveriesOf(userId)).toMatchObject([
      {
        deal_events: { property: 'test', dealId: '' },
        deliveries: { state: 'sent', attempts: 1, ruleId: null, dealName: null },
      },
    ])
  })

  test.each([
    ['is_archived', 'Slack says that the channel is archived.'],
    ['invalid_blocks', 'Not sent: Slack did not accept the message (invalid_blocks).'],
  ])('that Slack refuses with %s is answered with the reason in words', async (error, words) => {
    refusePosts(error)
    expect(await sendTest()).toMatchObject(refused(502, 'not_sent', words))
  })

  test('is one in ten seconds for all browsers of a user, and another user has his own', async () => {
    // Each call is by a browser of its own.
    const answers = await Promise.all([sendTest(), sendTest()])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 429])
    const late = await sendTest()
    expect(late).toMatchObject({ status: 429, body: { error: { code: 'too_many_requests' } } })
    const retryAfter = Number(late.headers.get('Retry-After'))
    expect(retryAfter).toBeGreaterThan(0)
    expect(retryAfter).toBeLessThanOrEqual(10)
    expect(await deliveriesOf(userId)).toHaveLength(1)
    // A second click is no attack that an operator must know of.
    expect(backend.lines.join()).not.toContain('rate limit reached')

    const other = await connect({ channel: `${channel}x` })
    expect((await sendTest(other)).status).toBe(200)
  })

  test('that waits is answered after eight seconds, with the reason and the next try', async () => {
    answerPosts(() => ({ status: 429, headers: { 'Retry-After': '60' } }))
    const answer = sendTest()
    await vi.waitFor(async () => {
      const [row] = await deliveriesOf(userId)
      expect(row?.deliveries.reason).toBe('rate_limited')
    }, 10_000)
    clock += 7_900
    const before = looks
    await vi.waitFor(() => expect(looks).toBeGreaterThan(before + 1), 10_000)
    expect(await Promise.race([answer, 'waits'])).toBe('waits')
    clock += 100
    const { status, body } = await answer
    expect(status).toBe(202)
    const waiting = { state: 'waiting', channel: `#${channel}`, reason: 'Slack asks for a pause' }
    expect(body).toEqual({ ...waiting, nextTryAt: expect.any(String) })
    expect(v.is(testAnswer, body)).toBe(true)
    await backend.disconnect(userId, 'slack')
  })
})
