import { and, eq, sql } from 'drizzle-orm'
import * as v from 'valibot'
import { describe, expect, test, vi } from 'vitest'
import { activityAnswer, retryPath, summaryAnswer } from '../../contract/features/activity.ts'
import { retryAllCall } from '../../contract/features/retry-all.ts'
import { reasonInWords } from '../../server/activity/reasons.ts'
import { forgetDealsOfDisconnected } from '../../server/clean/deal-names.ts'
import { deliveries } from '../../server/database/schema.ts'
import { createProviders } from '../../server/providers/create.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { databaseKinds } from '../database.ts'
import { stageChange } from '../relay/hubspot-webhook.ts'
import {
  backend,
  channel,
  connect,
  open,
  outside,
  portal,
  posts,
  refusePosts,
  shareBackend,
  team,
} from '../relay/shared.ts'
import { refusal, storeDeliveries, storeDelivery } from './harness.ts'

const providers = createProviders(
  parseEnv({ APP_URL: 'http://localhost' }).addressesAt(1).providers,
)

const store = (userId: string, stored?: Parameters<typeof storeDelivery>[2]) =>
  storeDelivery(open.database, userId, stored)

/** The calls of a user's dashboard. */
function signIn(userId: string) {
  const call = (path: string, method = 'GET') => backend.call(userId, path, { method })
  const read = (path: string) => backend.read(userId, `notifications/${path}`)
  return {
    userId,
    call,
    activity: async (query = '') => v.parse(activityAnswer, await read(`activity${query}`)),
    summary: async (query = '') => v.parse(summaryAnswer, await read(`summary${query}`)),
    retry: async (id: string) => (await call(retryPath(id), 'POST')).status,
    async retryAll(query = '') {
      const answer = await call(`${retryAllCall.path}${query}`, 'POST')
      return { status: answer.status, body: await answer.json() }
    },
  }
}

describe.each(databaseKinds)('on %s', (kind) => {
  shareBackend(kind)

  test('of messages that wait, 10,000 are counted: an open dashboard counts again and again', async () => {
    const { userId, summary } = signIn(await connect())
    const wait = (count: number) =>
      storeDeliveries(open.database, userId, count, () => ({ state: 'pending', finishedAt: null }))
    await wait(3)
    expect(await summary()).toMatchObject({ waiting: 3 })
    for (let n = 0; n < 2; n++) await wait(5_000)
    expect(await summary()).toMatchObject({ waiting: 10_000 })
    await open.database.delete(deliveries)
  })

  test('a moved deal is listed with what its message said, and counted', async () => {
    const { userId, activity, summary } = signIn(await connect())
    outside.deals.set('1', { name: 'Acme\nrenewal' })
    const at = Date.now() - 1_000
    await backend.tell([stageChange(1, { portal, at })])
    await backend.settled()

    const { items, next } = await activity()
    expect(next).toBeNull()
    const url = `https://app.hubspot.com/contacts/${portal}/record/0-3/1`
    expect(items).toEqual([
      {
        id: expect.stringMatching(/^\d+$/),
        at: new Date(at).toISOString(),
        ...{ state: 'sent', reason: null, tries: 1, nextTryAt: null },
        ...{ rule: 'deal-stage-changed', from: 'Appointment', to: 'Proposal sent' },
        deal: { name: 'Acme renewal', id: '1', url },
        channel: `#${channel}`,
      },
    ])
    expect(await summary()).toMatchObject({
      rules: { 'deal-stage-changed': { sent: 1, failed: 0 } },
      waiting: 0,
    })
    // The message stays where it was sent.
    await backend.connectAgain(userId, { portal, team, channel: `${channel}x` })
    expect((await activity()).items).toEqual(items)
  })

  test('a failed message says why and is sent again once, and all that failed while Slack was disconnected with one call', async () => {
    const { userId, activity, summary, retry, retryAll } = signIn(await connect())
    // Failed before the connection broke, so not because of it.
    const earlier = { state: 'dead', occurredAt: new Date(Date.now() - 60_000) } as const
    await store(userId, { ...earlier, reason: 'invalid_blocks' })
    await store(userId, { ...earlier, reason: 'is_archived', property: 'test' })
    refusePosts('is_archived')
    const at = Date.now()
    await backend.tell([1, 2, 3].map((deal) => stageChange(deal, { portal, at: at + deal })))
    await backend.settled()
    const before = await activity()
    const archived = { state: 'failed', reason: 'the channel is archived. Connect Slack again' }
    expect(before.items).toMatchObject([
      archived,
      archived,
      { ...archived, tries: 2 },
      archived,
      { state: 'failed', reason: 'Slack did not accept the message (invalid_blocks)' },
    ])
    const failedWhileBroken = { count: 3, more: false, providers: ['slack'] }
    // The last two ended without a try, so nobody knows their rule.
    expect(await summary()).toMatchObject({
      rules: { 'deal-stage-changed': { sent: 0, failed: 1, lastSentAt: null } },
      ...{ failedWhileBroken, connectFirst: ['slack'] },
    })

    // Its check sends the last message again (people/checks.ts).
    const probe = await store(userId, { state: 'pending', finishedAt: null, reason: null })
    expect((await activity(`?ids=${probe}`)).items).toMatchObject([
      { state: 'waiting', reason: 'it shows whether Slack works again' },
    ])
    await open.database.delete(deliveries).where(eq(deliveries.id, Number(probe)))

    outside.answerPost = () => undefined
    await backend.connectAgain(userId, { portal, team, channel })
    expect(await summary()).toMatchObject({ failedWhileBroken, connectFirst: [] })
    // What it failed with is over.
    const over = { reason: 'the channel is archived. Slack is connected again', isOver: true }
    const now = await activity()
    expect(now.items.slice(0, 3)).toMatchObject([over, over, over])
    expect(now.items[4]).not.toHaveProperty('isOver')
    const id = before.items[2]?.id ?? ''
    expect((await Promise.all([retry(id), retry(id)])).sort()).toEqual([202, 409])
    await backend.settled()
    const after = await activity()
    expect(after.items.map((item) => item.id)).toEqual(before.items.map((item) => item.id))
    expect(after.items[2]).toMatchObject({ state: 'sent', reason: null, tries: 1 })
    expect(posts()).toHaveLength(1)
    expect(await summary()).toMatchObject({
      rules: { 'deal-stage-changed': { sent: 1, failed: 0 } },
    })

    expect((await retryAll('?because=broken')).body).toEqual({ queued: 2, more: false })
    await backend.settled()
    const states = (await activity()).items.map(({ state }) => state)
    expect(states).toEqual(['sent', 'sent', 'sent', 'failed', 'failed'])
    expect(await summary()).toMatchObject({ failedWhileBroken: { count: 0, providers: [] } })
    // A test message is no news.
    expect((await retryAll()).body).toEqual({ queued: 1, more: false })
    await backend.settled()
    expect(posts()).toHaveLength(4)
  })

  test('what a search finds of the failed messages is counted and sent again with one call, and nothing else', async () => {
    const { userId, retryAll, activity } = signIn(await connect())
    const dead = { state: 'dead', reason: 'invalid_blocks' } as const
    const at = (time: string) => ({ occurredAt: new Date(`2026-03-${time}Z`) })
    const acme = { ...dead, dealName: 'ACME renewal', ruleId: 'deal-closed' }
    const found = await store(userId, { ...acme, ...at('28T23:00:00') })
    await store(userId, { ...acme, ...at('28T22:59:59') })
    await store(userId, { ...acme, ...at('28T23:00:01'), reason: 'disconnected' })
    await store(userId, { ...acme, ...at('28T23:00:02'), ruleId: 'deal-stage-changed' })
    await store(userId, { ...dead, ...at('28T23:00:03'), property: 'test' })
    await store(await connect(), { ...acme, ...at('28T23:00:00') })
    const query = 'q=acme&rule=deal-closed&day=2026-03-29&zone=Europe/Berlin'
    const retryable = async (more: string) =>
      (await activity(`?counts=true&state=failed&${more}`)).retryable
    expect(await retryable(query)).toEqual({ count: 1, more: false })
    expect(await retryable('')).toEqual({ count: 3, more: false })
    expect((await retryAll(`?${query}`)).body).toEqual({ queued: 1, more: false })
    await backend.settled()
    const { items } = await activity()
    expect(items.filter(({ state }) => state !== 'failed').map(({ id }) => id)).toEqual([found])
  })

  test('a disconnect of the CRM deletes names and labels, and the list stays', async () => {
    const { userId, activity } = signIn(await connect())
    outside.deals.set('1', { name: 'Acme renewal' })
    await backend.tell([stageChange(1, { portal })])
    await backend.settled()
    // More than a batch.
    const occurredAt = new Date(Date.now() - 60_000)
    const old = { dealName: 'Acme', fromLabel: 'A', toLabel: 'B', occurredAt }
    await storeDeliveries(open.database, userId, 270, () => old)
    await backend.disconnect(userId, 'slack')
    expect((await activity()).items[0]?.deal?.name).toBe('Acme renewal')

    await backend.disconnect(userId, 'hubspot')
    // The answer may come before the last batch.
    const ofUser = eq(deliveries.userId, userId)
    const isNamed = sql`coalesce(deal_name, from_label, to_label) is not null`
    await vi.waitFor(async () =>
      expect(await open.database.$count(deliveries, and(ofUser, isNamed))).toBe(0),
    )
    expect(await open.database.$count(deliveries, ofUser)).toBe(271)
    const [item] = (await activity()).items
    expect(item).toMatchObject({ state: 'sent', from: null, to: null, deal: { name: null } })
  })

  test('the clean-up deletes what a disconnect left, and only that', async () => {
    const { userId, activity } = signIn(await connect())
    const gone = await backend.newUser()
    // What other tests have left.
    await forgetDealsOfDisconnected(open.database)
    for (const id of [userId, gone]) await store(id, { dealName: 'Acme', toLabel: 'Won' })
    expect(await forgetDealsOfDisconnected(open.database)).toBe(1)
    expect((await activity()).items).toMatchObject([{ deal: { name: 'Acme' }, to: 'Won' }])
    expect((await signIn(gone).activity()).items).toMatchObject([{ deal: { name: null } }])
  })

  test('a search finds parts of names in any case, rules and days, goes on where a page ends, and counts', async () => {
    const { userId, activity } = signIn(await backend.newUser())
    const at = (time: string) => new Date(`2026-03-${time}Z`)
    const acme = { dealName: 'ACME renewal', ruleId: 'deal-closed' }
    const umbrella = { dealName: '100% Ümbrella_1', ruleId: 'deal-stage-changed' }
    // In Berlin, the clocks change on the 29th. The first and the last are on other days there.
    const ids = [
      await store(userId, { ...acme, occurredAt: at('28T22:59:59'), state: 'dead' }),
      await store(userId, { ...acme, occurredAt: at('28T23:00:00'), state: 'ignored' }),
      await store(userId, { ...umbrella, occurredAt: at('29T21:59:59') }),
      await store(userId, { ...acme, occurredAt: at('29T22:00:00') }),
      await store(userId, { occurredAt: at('30T00:00:00') }),
    ]
    await store(await backend.newUser(), acme)
    const found = async (query: string) => {
      const { items, next } = await activity(`?${query}`)
      return [...items.map(({ id }) => ids.indexOf(id)), ...(next === null ? [] : ['more'])]
    }
    expect(await found('q=acme%20r')).toEqual([3, 1, 0])
    expect(await found('q=%20RENEWAL&state=failed')).toEqual([0])
    expect(await found('rule=deal-stage-changed')).toEqual([2])
    expect(await found('q=acme&day=2026-03-29&zone=Europe/Berlin')).toEqual([1])
    expect(await found('day=2026-03-29&zone=Europe/Berlin')).toEqual([2, 1])
    expect(await found('day=2026-03-29')).toEqual([3, 2])
    expect(await found('q=&limit=5')).toEqual([4, 3, 2, 1, 0])
    expect(await found('q=acme&limit=2')).toEqual([3, 1, 'more'])
    const { next } = await activity('?q=acme&limit=2')
    expect(await found(`q=acme&limit=2&before=${next}`)).toEqual([0])
    // Sent, waiting, failed, skipped.
    const { counts } = await activity('?counts=true&limit=1&q=acme&state=sent')
    expect(Object.values(counts ?? {}).map(({ count }) => count)).toEqual([1, 0, 1, 1])
  })

  test('a search finds a name however both are written, and so does “send all again”', async () => {
    const { userId, activity } = signIn(await backend.newUser())
    const pairs = [
      ['Praxis ÄRZTE', 'ärzte'],
      ['한국 전력', '한국'.normalize('NFD')],
      ['Großkunde', 'GROSSK'],
      ['İzmir', 'izmir'],
      ['Co\u00ADoperation', 'coop'],
      ['50% off_1 \\o/', '% off_1 \\'],
    ] as const
    for (const [dealName] of pairs) {
      await store(userId, { dealName, state: 'dead', reason: 'invalid_blocks' })
    }
    await store(userId, { state: 'dead', reason: 'invalid_blocks' })
    const found = async (q: string) => {
      const query = new URLSearchParams({ q, state: 'failed', counts: 'true' })
      const { items, counts, retryable } = await activity(`?${query}`)
      return [items.map(({ deal }) => deal?.name), counts?.failed.count, retryable?.count]
    }
    for (const [name, q] of pairs) expect(await found(q)).toEqual([[name], 1, 1])
    for (const q of ['arzte', 'of_']) expect(await found(q)).toEqual([[], 0, 0])
  })

  test('a search of many messages stops, says how far it came, and goes on from there', async () => {
    const { userId, activity } = signIn(await backend.newUser())
    const needle = await store(userId, { dealName: 'Needle', occurredAt: new Date(0) })
    const start = Date.parse('2026-03-01T00:00:00Z')
    await storeDeliveries(open.database, userId, 1_500, (n) => ({
      dealName: 'Hay',
      occurredAt: new Date(start + n * 1_000),
    }))
    const first = await activity('?q=needle&counts=true')
    expect(first).toMatchObject({ items: [], searchedTo: '2026-03-01T00:08:21.000Z' })
    expect(first.counts?.sent).toEqual({ count: 0, more: true })
    const second = await activity(`?q=needle&before=${first.next}`)
    expect(second).toEqual({ items: [expect.objectContaining({ id: needle })], next: null })
    expect((await activity('?counts=true')).counts?.sent).toEqual({ count: 1_000, more: true })
  })

  test('nobody sees or sends what belongs to somebody else', async () => {
    const [mine, other] = [await backend.newUser(), await backend.newUser()]
    const failed = { state: 'dead', dealName: 'Secret', occurredAt: new Date(1e12) } as const
    const ids = [await store(other, failed), await store(other, failed)]
    const own = await store(mine, { occurredAt: new Date(9e11) })
    const me = signIn(mine)
    const { next } = await signIn(other).activity('?limit=1')
    // Another user's cursor is only a position.
    expect((await me.activity(`?before=${next}`)).items).toMatchObject([{ id: own }])
    // Other parameters do not apply to ids.
    const asked = await me.activity(`?ids=${[...ids, own, '999999']}&state=failed&limit=1`)
    expect(asked).toMatchObject({ items: [{ id: own }], next: null })
    expect(await me.summary('?days=30')).toMatchObject({ rules: {} })

    const invented = ['9'.repeat(400), `${ids[0]} or 1=1`, '१']
    for (const id of [...ids, ...invented]) {
      expect(await refusal(await me.call(retryPath(id), 'POST')), id).toBe('404 no_such_message')
    }
    const rows = await open.database.select().from(deliveries).where(eq(deliveries.userId, other))
    expect(rows.map(({ state }) => state)).toEqual(['dead', 'dead'])
  })
})

describe('a day', () => {
  let clock = new Date()
  shareBackend('PGlite', { now: () => clock, working: false })

  test.each<[zone: string, now: string, date: string, starts: string]>([
    // The day before has 25 hours.
    ['Europe/Berlin', '2026-10-26T12:00Z', '2026-10-26', '2026-10-25T23:00Z'],
    // The clocks go from midnight to one, so the day has no midnight.
    ['America/Santiago', '2026-09-06T15:00Z', '2026-09-06', '2026-09-06T04:00Z'],
    // A zone that only the browser knows, or not even the browser, counts as UTC.
    ['Etc/Unknown', '2026-06-10T12:00Z', '2026-06-10', '2026-06-10T00:00Z'],
  ])('of %j at %s is %s, and starts at %s', async (zone, now, date, starts) => {
    clock = new Date(now)
    const { userId, activity, summary } = signIn(await backend.newUser())
    const start = Date.parse(starts)
    for (const ms of [start - 1, start, start + 1]) {
      await store(userId, { occurredAt: new Date(ms) })
    }
    const query = `zone=${encodeURIComponent(zone)}`
    const { daily } = await summary(`?days=3&${query}`)
    expect(daily.map(({ sent }) => sent)).toEqual([0, 1, 2])
    expect(daily.at(-1)?.date).toBe(date)
    expect((await activity(`?day=${date}&${query}`)).items).toHaveLength(2)
  })

  test.each([
    'summary?days=31',
    `activity?before=${'9'.repeat(17)}.1`,
    'activity?day=2026-02-30',
    'activity?q=\0',
    `activity?ids=${'9'.repeat(19)}`,
    `activity?ids=${Array(101).fill(1)}`,
  ])('is not asked for by %s', async (path) => {
    const answer = await backend.app.request(`/api/notifications/${encodeURI(path)}`)
    expect(await refusal(answer)).toBe('400 invalid_query')
  })
})

test.each([
  ['pending', 'unreachable', 'Slack did not answer'],
  ['dead', 'token_revoked', 'the access was revoked. Connect Slack again'],
  [
    'dead',
    'access_denied',
    'HubSpot or Slack no longer accepts the connection (access_denied). Connect that service again',
  ],
  ['ignored', 'no_such_deal', 'the deal is no longer in HubSpot'],
  ['ignored', 'said_in_channel', "another user's rule already reported this change in the channel"],
] as const)('%s because of %s: %s', (state, reason, words) => {
  for (const chat of ['slack', undefined] as const) {
    expect(reasonInWords(providers, { state, reason, crm: 'hubspot', chat })).toBe(words)
  }
})

test('a deal that is no longer in Pipedrive may be one that the user may not see', () => {
  const of = { state: 'ignored', reason: 'no_such_deal', crm: 'pipedrive', chat: 'slack' } as const
  const words = 'the deal is no longer in Pipedrive, or you may not see it'
  expect(reasonInWords(providers, of)).toBe(words)
})
