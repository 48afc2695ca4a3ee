import { randomBytes } from 'node:crypto'
import { eq, sql } from 'drizzle-orm'
import { describe, expect, test } from 'vitest'
import { operatorToken } from '../../server/activity/operator-answers.ts'
import {
  channels,
  crmAccounts,
  crmBudgets,
  dealEvents,
  deliveries,
  sessions,
  users,
} from '../../server/database/schema.ts'
import { databaseKinds } from '../database.ts'
import { storeDeliveries, storedIn } from '../server/harness.ts'
import {
  backend,
  channel,
  connect,
  nextAccount,
  outside,
  portal,
  shareBackend,
  team,
} from './shared.ts'

const key = randomBytes(32)
const headers = { Authorization: `Bearer ${operatorToken([key])}` }

/** What the server answers to the command `account` about this test's account. */
async function ask(step = '', method = 'GET', account = `hubspot:${portal}`): Promise<string> {
  const incoming = { rawHeaders: [], socket: { remoteAddress: '127.0.0.1' } }
  const path = `http://127.0.0.1/relay/account/${account}${step}`
  const answer = await backend.app.request(path, { method, headers }, { incoming })
  expect(answer.status).toBe(200)
  return await answer.text()
}
/** The known accounts that a name means. */
const named = async (name: string) => JSON.parse(await ask('', 'GET', name)).accounts
const take = async (step: string) => JSON.parse(await ask(`/${step}`, 'POST'))

type Changes = ReturnType<Parameters<typeof storeDeliveries>[3]>

/** Stores deliveries of events of this test's account. */
async function store(userId: string, count: number, changes: (n: number) => Changes) {
  const ids = await storeDeliveries(backend.database, userId, count, (n) => ({
    channel: `${team}/${channel}`,
    ...changes(n),
  }))
  await backend.database.execute(sql`update deal_events set account_id = ${`${portal}`}
    where id in (select event_id from deliveries where id = any(${sql.param(ids)}::bigint[]))`)
  return ids
}

describe.each(databaseKinds)('on %s, one account', (kind) => {
  shareBackend(kind, { working: false, key })

  test('shows its connections, what waits and what failed, and nothing of another', async () => {
    const userId = await connect()
    await backend.database.execute(sql`update connections set broken_since = '2026-11-20T00:00:00Z',
      broken_reason = 'token_revoked' where user_id = ${userId} and provider = 'slack'`)
    const minuteAgo = new Date(Date.now() - 60_000)
    await store(userId, 5, (n) => ({
      ...(n <= 2
        ? { state: 'dead' as const, reason: 'token_revoked' }
        : { state: 'pending' as const, reason: n === 3 ? 'paused' : null, receivedAt: minuteAgo }),
    }))
    const shown = JSON.parse(await ask())
    expect(shown).toMatchObject({
      ...{ pausedSince: null, users: 1, connections: 2, broken: 1 },
      ...{ pending: 3, dead: 2, sent: 0, reasons: { token_revoked: 2 } },
      waiting: { paused: 1, '': 2 },
    })
    expect(shown.oldestPendingS).toBeCloseTo(60, -1)
    expect(shown.firstConnections).toMatchObject([
      { provider: 'slack', state: 'broken', reason: 'token_revoked', user: userId },
      { provider: 'hubspot', state: 'working', reason: null, account: `${portal}` },
    ])
    expect(shown.firstConnections[0].since).toMatch(/^2026-11-20T00:00:00/)
    expect(JSON.stringify(shown)).not.toMatch(/secret/)

    nextAccount()
    expect(await named(`${portal}`)).toEqual([])
    expect(JSON.parse(await ask())).toMatchObject({ users: 0, dead: 0 })
  })

  test('is paused also before its first search, and goes on with what waited', async () => {
    const [userId, other] = [await connect(), await connect({ channel: 'other' })]
    await take('pause')
    const { pausedSince } = JSON.parse(await ask())
    expect(Date.parse(pausedSince)).toBeCloseTo(Date.now(), -5)
    await take('pause')
    expect(JSON.parse(await ask()).pausedSince).toBe(pausedSince)

    const later = new Date(Date.now() + 600_000)
    const pending = { state: 'pending', notBefore: later } as const
    await store(userId, 300, () => ({ ...pending, reason: 'paused' }))
    await store(other, 1, () => ({ ...pending, channel: `${team}/other`, reason: 'unreachable' }))
    await take('resume')
    expect(JSON.parse(await ask())).toMatchObject({
      ...{ pausedSince: null, waiting: { '': 300, unreachable: 1 } },
    })
    const waits = await backend.database
      .select({ userId: deliveries.userId })
      .from(deliveries)
      .where(eq(deliveries.notBefore, later))
    expect(waits).toEqual([{ userId: other }])
    const due = await backend.database
      .select()
      .from(channels)
      .where(sql`id like ${`${team}/%`}`)
    expect(due.map(({ id, dueAt }) => [id, dueAt !== null])).toEqual([[`${team}/${channel}`, true]])
  })

  test('has its dead deliveries sent again, and those of no other', async () => {
    const dead = () => ({ state: 'dead' as const, reason: 'unreachable' })
    await store(await connect(), 2, dead)
    nextAccount()
    await store(await connect(), 3, dead)
    expect(await take('replay')).toEqual({ done: true, replayed: 3 })
    const other = JSON.parse(await ask('', 'GET', `${portal - 1}`))
    expect(other).toMatchObject({ dead: 2, pending: 0 })
  })

  test('is exported page by page, without a token, and without another account', async () => {
    const other = await connect()
    await store(other, 3, () => ({}))
    nextAccount()
    const userId = await connect()
    const named = { crm: 'hubspot', crmAccountId: `${portal}`, crmUserId: '5' } as const
    // Knows the account, and has disconnected everything.
    const [left] = await backend.database.insert(users).values(named).returning()
    const at = new Date()
    // So many with the same time.
    const ids = await store(userId, 2_300, (n) => ({
      occurredAt: new Date(at.getTime() + (n >> 9)),
    }))
    await take('pause')
    const text = await ask('/export')
    const { accounts, connections, events, ...all } = JSON.parse(text)
    const sorted = (rows: Array<{ id: unknown }>) => rows.map(({ id }) => id).toSorted()
    expect(accounts).toMatchObject([{ crm: 'hubspot', account_id: `${portal}` }])
    expect(sorted(all.users)).toEqual([userId, left?.id].toSorted())
    expect(connections).toHaveLength(2)
    expect(all.rules).toMatchObject([{ user_id: userId, rule_ids: ['deal-stage-changed'] }])
    expect(sorted(all.deliveries)).toEqual(ids.toSorted())
    expect(sorted(events)).toEqual(
      sorted(all.deliveries.map(({ event_id: id }: { event_id: number }) => ({ id }))),
    )
    expect(text).not.toMatch(/secret/i)
    expect(text).not.toContain(other)
  })

  test('is another one than that of another CRM with the same id', async () => {
    const { database } = backend
    const tables = [users, dealEvents, deliveries, crmAccounts] as const
    const before = await storedIn(database, ...tables)
    await store(await connect(), 1, () => ({}))
    const of = { crm: 'pipedrive', accountId: `${portal}` } as const
    const [own] = await database
      .insert(users)
      .values([
        { crm: of.crm, crmAccountId: `stand-in:${portal}`, crmUserId: '5' },
        { crm: 'hubspot', crmAccountId: `${portal}`, crmUserId: '5' },
      ])
      .returning()
    await database
      .insert(crmAccounts)
      .values({ ...of, searchedUntil: new Date(), searchAt: new Date() })
    const changed = {
      dealId: '1',
      property: 'stage',
      value: 'next',
      occurredAt: new Date(),
    } as const
    await database.insert(dealEvents).values({ ...of, ...changed, key: `other ${portal}` })
    const names = [`hubspot:${portal}`, `pipedrive:${portal}`]
    expect(await named(`${portal}`)).toEqual(names)
    for (const name of names) expect(await named(name)).toEqual([name])
    const { accounts, events, ...all } = JSON.parse(
      await ask('/export', 'GET', `pipedrive:${portal}`),
    )
    expect([accounts.length, events.length]).toEqual([1, 1])
    expect(all.users).toMatchObject([{ id: own?.id }])

    await take('pause')
    const paused = async (crm: string) =>
      JSON.parse(await ask('', 'GET', `${crm}:${portal}`)).pausedSince !== null
    expect([await paused('hubspot'), await paused('pipedrive')]).toEqual([true, false])
    await take('delete')
    expect(await named(`${portal}`)).toEqual([`pipedrive:${portal}`])
    await ask('/delete', 'POST', `pipedrive:${portal}`)
    expect(await storedIn(database, ...tables)).toBe(before)
  })

  test('is deleted with all that belongs to it, its grants end, and others stay', async () => {
    const { database } = backend
    const stays = await connect()
    await store(stays, 2, () => ({}))
    const tables = [users, dealEvents, deliveries, sessions, crmAccounts, crmBudgets] as const
    await take('pause')
    const before = await storedIn(database, ...tables)
    nextAccount()
    const userId = await connect()
    await backend.call(userId, '/api/notifications/rules')
    const day = { day: '2026-05-05', spent: 1 }
    await database.insert(crmBudgets).values({ crm: 'hubspot', accountId: `${portal}`, ...day })
    await store(userId, 600, (n) => ({ state: n % 2 ? 'pending' : 'sent' }))
    expect(await take('delete')).toMatchObject({ done: true })
    expect(await storedIn(database, ...tables)).toBe(before)
    expect(await named(`${portal}`)).toEqual([])
    expect(outside.revoked).toContain(`xoxb-secret-${team}`)
    await expect.poll(() => outside.uninstalled).toContain(`hubspot-access-secret-${portal}`)
  })
})
