import { isNotNull } from 'drizzle-orm'
import { Hono } from 'hono'
import * as v from 'valibot'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { operatorToken, replayAnswer } from '../../server/activity/operator-answers.ts'
import { operatorRoutes } from '../../server/api/operator.ts'
import type { OpenDatabase } from '../../server/database/open.ts'
import { channels, dealEvents, deliveries, users } from '../../server/database/schema.ts'
import { answerError } from '../../server/http/errors.ts'
import { logTo } from '../../server/log.ts'
import { createVault } from '../../server/people/vault.ts'
import { createProviders } from '../../server/providers/create.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { openTestDatabase } from '../database.ts'
import { refusal, storeDelivery } from '../server/harness.ts'

const key = Buffer.alloc(32, 1)
const token = operatorToken([key])
const onReplayed = vi.fn()
const log = logTo(() => undefined)
const providers = createProviders(parseEnv({}).addressesAt(1).providers)

let open: OpenDatabase
let app: Hono

beforeAll(async () => {
  open = await openTestDatabase('PGlite')
  const { database } = open
  const context = {
    database,
    operatorToken: token,
    wakeRelay: onReplayed,
    vault: createVault([key]),
    providers,
    log,
  }
  app = new Hono().route('/relay', operatorRoutes(context)).onError(answerError(log))
})
beforeEach(async () => {
  onReplayed.mockClear()
  await open.database.delete(users)
  await open.database.delete(dealEvents)
  await open.database.delete(channels)
})
afterAll(() => open.close())
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000)

/** Deliveries of one user, each of an event of its own, which was a day ago. */
async function store(...rows: Array<Parameters<typeof storeDelivery>[2]>): Promise<void> {
  const [user] = await open.database.insert(users).values({}).returning()
  for (const row of rows) {
    await storeDelivery(open.database, user?.id ?? '', { occurredAt: daysAgo(1), ...row })
  }
}

const ask = (path: string, authorization: string | undefined = `Bearer ${token}`) =>
  app.request(
    `/relay/${path}`,
    {
      method: path === 'replay' ? 'POST' : 'GET',
      headers: authorization === '' ? {} : { Authorization: authorization },
    },
    { incoming: { socket: { remoteAddress: '127.0.0.1' } } },
  )

describe('the operator of the server', () => {
  test('has a token that follows from the newest key, and from no other', () => {
    const other = Buffer.alloc(32, 2)
    expect(operatorToken([key, other])).toBe(token)
    expect(operatorToken([other, key])).not.toBe(token)
    // The command and the server may be of two releases.
    expect(token).toBe('gESVdAWWUx80_7RiXfLk5sQD9cnl28CZFOF85ffdNF0')
    expect(() => operatorToken([])).toThrow('There is no encryption key.')
  })

  test.each([
    ['no token', ''],
    ['the token alone', token],
    ['the beginning of it', `Bearer ${token.slice(0, -1)}`],
  ])('is no one who has %s', async (_, authorization) => {
    await store({ state: 'dead' })
    for (const path of ['status', 'count', 'replay', 'account/7', 'account/7/export']) {
      const answer = await ask(path, authorization)
      expect(await answer.clone().text()).toContain('This is for the operator of the server.')
      expect(await refusal(answer)).toBe('401 unauthorized')
    }
    expect(onReplayed).not.toHaveBeenCalled()
    expect(await open.database.select({ state: deliveries.state }).from(deliveries)).toEqual([
      { state: 'dead' },
    ])
  })

  test('has the dead deliveries sent again, as if they had never been tried, and no others', async () => {
    const at = new Date('2026-11-20T12:00:00Z')
    const tried = { attempts: 7, reason: 'token_revoked', notBefore: at, finishedAt: at }
    const dead = { ...tried, state: 'dead' } as const
    await store(
      { ...dead, channel: 'T/A' },
      { ...dead, channel: 'T/A' },
      { ...tried, state: 'sent', channel: 'T/C' },
      { ...tried, state: 'ignored', channel: 'T/D' },
      // No changes that are older than three days, no test messages, and nothing that a disconnect ended.
      { ...dead, channel: 'T/B', occurredAt: daysAgo(2.9) },
      { ...dead, channel: 'T/old', occurredAt: daysAgo(3.1) },
      { ...dead, channel: 'T/test', property: 'test' },
      { ...dead, channel: 'T/left', reason: 'disconnected' },
    )
    const answer = await ask('replay')
    expect(answer.status).toBe(200)
    expect(v.parse(replayAnswer, await answer.json())).toEqual({ replayed: 3 })
    expect(onReplayed).toHaveBeenCalledTimes(1)

    const { channel, state, attempts, reason, notBefore, finishedAt } = deliveries
    const rows = await open.database
      .select({ channel, state, attempts, reason, notBefore, finishedAt })
      .from(deliveries)
      .orderBy(deliveries.id)
    const untried = { attempts: 0, reason: null, notBefore: null, finishedAt: null }
    expect(rows).toEqual([
      { ...untried, state: 'pending', channel: 'T/A' },
      { ...untried, state: 'pending', channel: 'T/A' },
      { ...tried, state: 'sent', channel: 'T/C' },
      { ...tried, state: 'ignored', channel: 'T/D' },
      { ...untried, state: 'pending', channel: 'T/B' },
      { ...dead, channel: 'T/old' },
      { ...dead, channel: 'T/test' },
      { ...dead, channel: 'T/left', reason: 'disconnected' },
    ])
    const due = await open.database
      .select({ id: channels.id })
      .from(channels)
      .where(isNotNull(channels.dueAt))
    expect(due.map(({ id }) => id).toSorted()).toEqual(['T/A', 'T/B'])
  })
})
