import { and, eq, inArray, sql } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { channels, dealEvents, deliveries, rules } from '../../server/database/schema.ts'
import { makeDue } from '../../server/relay/schedule/channels.ts'
import { replayDead } from '../../server/relay/show/operator.ts'
import { databaseKinds, openTestDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { dealIn, dealsIn, shownIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside, usualStages } from './outside.ts'

const range = (first: number, count: number) => Array.from({ length: count }, (_, n) => first + n)

describe.each(databaseKinds)('on %s', (kind) => {
  let open: OpenDatabase
  let outside: Outside
  let backend: Backend
  // Each test has an account, a workspace and a channel of its own on one database.
  let portal = 1000
  let team = ''
  let channel = ''

  beforeAll(async () => {
    open = await openTestDatabase(kind)
    outside = await openOutside()
    backend = await startBackend(open, outside)
  })
  beforeEach(() => {
    portal += 1
    team = `T${portal}`
    channel = `C${portal}`
  })
  afterEach(() => {
    outside.answerPost = () => undefined
    outside.answerRead = () => undefined
    outside.deals.clear()
    outside.missing.clear()
    outside.merged.clear()
    outside.reads.length = 0
  })
  afterAll(async () => {
    await backend.stop()
    await open.close()
    await outside.close()
  })

  const posts = () => outside.posts.filter((post) => post.channel === channel)
  const calls = () => outside.calls.filter((call) => call.channel === channel)
  const said = () => posts().map(dealsIn)
  const connect = (ruleIds = ['deal-stage-changed']) =>
    backend.connect({ portal, team, channel, ruleIds })
  const changes = (deals: readonly number[], stage = 'next') => {
    const at = Date.now() - 10_000
    return deals.map((deal) => stageChange(deal, { portal, stage, at: at + deal }))
  }
  /** One webhook brings all events, so they all wait when the relay looks. */
  const tell = (deals: readonly number[], stage?: string) => backend.tell(changes(deals, stage))
  /** Nothing is due in the channel, and no process works on it. */
  async function isIdle(): Promise<boolean> {
    const [row] = await backend.database
      .select()
      .from(channels)
      .where(eq(channels.id, `${team}/${channel}`))
    return row?.dueAt === null && row.leasedUntil === null
  }
  const readsOf = (part: string) => outside.reads.filter((path) => path.includes(part))

  describe('a digest', () => {
    test('is sent for six that wait, and not for five', async () => {
      await connect()
      await tell(range(1, 5))
      await backend.settled()
      expect(said()).toEqual([[1], [2], [3], [4], [5]])
      await tell(range(11, 6))
      await backend.settled()
      expect(said().slice(5)).toEqual([range(11, 6)])
    })

    test('covers thirty events in their order, each with its link, stages and amount', async () => {
      const userId = await connect()
      outside.deals.set('3', { name: 'Deal 3', amount: '1200', currency: 'USD' })
      await tell(range(1, 61))
      await backend.settled()
      expect(said()).toEqual([range(1, 30), range(31, 30), [61]])
      expect(posts()[0]?.text).toBe('30 deals moved')
      expect(shownIn(posts()[0]?.blocks ?? '')[1]).toContain(
        `• <https://app.hubspot.com/contacts/${portal}/record/0-3/3|Deal 3>  Appointment → Proposal sent  ·  $1,200`,
      )
      const outcomes = await backend.outcomes(userId)
      expect(outcomes).toEqual(range(1, 61).map(() => ['sent', null]))
    })

    test('leaves out what needs no message, and looks as far as it must', async () => {
      const userId = await connect(['deal-closed'])
      const events = changes(range(1, 400)).map((event) =>
        event.objectId % 50 === 0 ? { ...event, propertyValue: 'w1' } : event,
      )
      await backend.tell(events)
      await backend.settled()
      expect(said()).toEqual([[50, 100, 150, 200, 250, 300, 350, 400]])
      expect(posts()[0]?.text).toBe('8 deals moved · 8 won')
      const states = (await backend.outcomes(userId)).map(([state]) => state)
      expect(states.filter((state) => state === 'ignored')).toHaveLength(392)
      // Nothing is read of the others, and all that is needed with one call.
      expect(readsOf('0-3/')).toEqual(['/hubspot/crm/objects/2026-03/0-3/batch/read'])
    })

    test('and the same events for two users of a channel: each event comes once', async () => {
      const users = [await connect(), await connect(['deal-stage-changed', 'deal-closed'])]
      await tell(range(1, 70))
      await backend.settled()
      expect(
        said()
          .flat()
          .toSorted((a, b) => a - b),
      ).toEqual(range(1, 70))
      const outcomes = (await Promise.all(users.map(backend.outcomes))).flat()
      expect(outcomes.filter(([state]) => state === 'sent')).toHaveLength(70)
      expect(outcomes.filter(([, reason]) => reason === 'said_in_channel')).toHaveLength(70)
      // Also those that the other user's message said are stored with what it said.
      for (const user of users) {
        expect(await backend.shown(user)).toEqual(
          range(1, 70).map((deal) => ({
            ruleId: 'deal-stage-changed',
            dealName: `Deal ${deal}`,
            fromLabel: 'Appointment',
            toLabel: 'Proposal sent',
          })),
        )
      }
    })

    test('ends before an event that must wait, and the next one begins with it', async () => {
      await connect(['deal-stage-changed', 'deal-stage-changed-orphan'])
      outside.deals.set('10', { linked: false })
      await tell(range(1, 20))
      await backend.settled()
      expect(said()).toEqual([range(1, 9), range(10, 11)])
      expect(posts()[1]?.blocks).toContain('No contact or company on this deal')
      expect(posts()[0]?.blocks).not.toContain('No contact or company on this deal')
    })

    test('does without a deal that is gone', async () => {
      const userId = await connect()
      outside.missing.add('4')
      await tell(range(1, 8))
      await backend.settled()
      expect(said()).toEqual([[1, 2, 3, 5, 6, 7, 8]])
      expect((await backend.outcomes(userId))[3]).toEqual(['ignored', 'no_such_deal'])
    })

    test('counts amounts in the currency of the account, which is read once', async () => {
      outside.stages = usualStages
      await connect(['deal-closed'])
      for (const deal of range(1, 6)) outside.deals.set(String(deal), { amount: '1000' })
      outside.deals.set('7', { amount: '50', currency: 'USD' })
      await tell(range(1, 7), 'w1')
      await backend.settled()
      expect(posts()[0]?.text).toBe('7 deals moved · 7 won, €6,000, $50')
      expect(readsOf('/account-info/')).toHaveLength(1)
    })

    test('has merged deals under their new ids, with the links that they have there', async () => {
      await connect(['deal-stage-changed-orphan'])
      for (const deal of [...range(1, 8), 40]) outside.deals.set(String(deal), { linked: false })
      outside.merged.set('3', '30')
      outside.merged.set('4', '40')
      await tell(range(1, 8))
      await backend.settled()
      expect(said()).toEqual([[1, 2, 40, 5, 6, 7, 8]])
    })

    test('that Slack refuses is sent as single messages, in order', async () => {
      const userId = await connect()
      outside.answerPost = (call) =>
        call.channel === channel && dealsIn(call).length > 1
          ? { status: 200, body: '{"ok":false,"error":"msg_blocks_too_long"}' }
          : undefined
      await tell(range(1, 6))
      await backend.settled()
      expect(said()).toEqual([[1], [2], [3], [4], [5], [6]])
      expect(calls().filter((call) => dealsIn(call).length > 1)).toHaveLength(1)
      expect(await backend.outcomes(userId)).toEqual(range(1, 6).map(() => ['sent', null]))
    })

    test.each([
      ['fails', { status: 500 }],
      ['makes wait', { status: 429, headers: { 'Retry-After': '1' } }],
    ])('that Slack %s is sent once', async (_, answer) => {
      await connect()
      let failures = 2
      outside.answerPost = (call) =>
        call.channel === channel && failures-- > 0 ? answer : undefined
      await tell(range(1, 8))
      await backend.settled()
      expect(calls().map(dealsIn)).toEqual([range(1, 8), range(1, 8), range(1, 8)])
      expect(said()).toEqual([range(1, 8)])
    })

    test('whose connection Slack refuses is dead, and a replay sends it', async () => {
      const userId = await connect()
      outside.answerPost = (call) =>
        call.channel === channel
          ? { status: 200, body: '{"ok":false,"error":"token_revoked"}' }
          : undefined
      await tell(range(1, 40))
      await backend.settled()
      expect(calls()).toHaveLength(1)
      expect(await backend.outcomes(userId)).toEqual(
        range(1, 40).map(() => ['dead', 'token_revoked']),
      )
      outside.answerPost = () => undefined
      await backend.connectAgain(userId, { portal, team, channel })
      await replayDead(backend.database)
      backend.relay.wake()
      await backend.settled()
      expect(said()).toEqual([range(1, 30), range(31, 10)])
    })

    test('follows the user to another channel', async () => {
      const userId = await connect()
      outside.answerPost = (call) => (call.channel === channel ? { status: 500 } : undefined)
      await tell(range(1, 8))
      await vi.waitFor(() => expect(calls().length).toBeGreaterThan(0), 10_000)
      channel = `${channel}x`
      outside.answerPost = () => undefined
      await backend.connectAgain(userId, { portal, team, channel })
      await backend.settled()
      expect(said()).toEqual([range(1, 8)])
    })

    test('that is being sent makes a disconnect wait, and nothing comes after it', async () => {
      const userId = await connect()
      const { promise: calling, resolve: started } = Promise.withResolvers<void>()
      const { promise: accepted, resolve: accept } = Promise.withResolvers<undefined>()
      outside.answerPost = (call) => {
        if (call.channel !== channel) return undefined
        started()
        return accepted
      }
      await tell(range(1, 40))
      await calling
      let isAnswered = false
      const disconnecting = backend.disconnect(userId, 'hubspot').then(() => {
        isAnswered = true
      })
      for (let n = 0; n < 20; n++) await backend.database.$count(deliveries)
      expect(isAnswered).toBe(false)
      accept(undefined)
      await disconnecting
      await backend.settled()
      expect(said()).toEqual([range(1, 30)])
      const outcomes = await backend.outcomes(userId)
      expect(outcomes.slice(30)).toEqual(range(31, 10).map(() => ['dead', 'disconnected']))
    })

    test('that a process sent when it died is repeated as it was, whatever came meanwhile', async () => {
      const userId = await connect([])
      await tell([1, 2, 3, 5, 6, 7, 8, 9])
      await backend.settled()
      // As if the relay had died while it sent six of these, and two had come late.
      const id = `${team}/${channel}`
      await backend.database.transaction(async (tx) => {
        await tx
          .update(rules)
          .set({ ruleIds: ['deal-stage-changed'] })
          .where(eq(rules.userId, userId))
        const state = { state: 'pending' as const, reason: null, finishedAt: null }
        await tx.update(deliveries).set(state).where(eq(deliveries.userId, userId))
        const claimed = tx
          .select({ id: dealEvents.id })
          .from(dealEvents)
          .where(
            and(
              eq(dealEvents.accountId, String(portal)),
              inArray(dealEvents.dealId, ['1', '2', '3', '6', '7', '8']),
            ),
          )
        await tx
          .update(deliveries)
          .set({ sendingUntil: sql`now()` })
          .where(and(eq(deliveries.userId, userId), inArray(deliveries.eventId, claimed)))
        await makeDue(tx, [id])
      })
      backend.relay.wake()
      await backend.settled()
      expect(said()).toEqual([[1, 2, 3, 6, 7, 8], [5], [9]])
    })
  })

  // Both databases get the same statements. Here PGlite's client counts them.
  test.runIf(kind === 'PGlite')(
    'one message takes three statements, and a digest takes one more',
    async () => {
      await connect()
      const query = vi.spyOn(Reflect.get(open.database, '$client'), 'query')
      const statements = async (deals: readonly number[]) => {
        query.mockClear()
        await tell(deals)
        await vi.waitFor(async () => expect(await isIdle()).toBe(true), 10_000)
        return query.mock.calls.filter(([text]) => /deliveries/.test(String(text))).length
      }
      expect(await statements([1])).toBe(3)
      expect(await statements(range(2, 30))).toBe(4)
    },
  )

  describe('reads', () => {
    test('of a deal serve all users and all tries of an event', async () => {
      const names = [channel, `${channel}x`, `${channel}y`]
      for (const name of names) await backend.connect({ portal, team, channel: name })
      let failures = 4
      outside.answerPost = () => (failures-- > 0 ? { status: 500 } : undefined)
      await tell([1])
      await backend.settled()
      const mine = outside.posts.filter((post) => names.includes(post.channel))
      expect(mine.map(dealIn)).toEqual([1, 1, 1])
      expect(readsOf('0-3/')).toHaveLength(1)
    })

    test('are not made if no ticked rule needs them', async () => {
      const userId = await connect(['deal-closed'])
      await tell([1, 2])
      await backend.settled()
      expect(await backend.outcomes(userId)).toEqual([
        ['ignored', 'no_rule'],
        ['ignored', 'no_rule'],
      ])
      expect(readsOf('0-3/')).toEqual([])
    })

    test('of contacts and companies are made only if the rule about them can apply', async () => {
      await connect(['deal-stage-changed', 'deal-closed'])
      await tell(range(1, 60))
      await backend.settled()
      expect(readsOf('associations')).toEqual([])
      expect(readsOf('batch/read')).toHaveLength(2)

      portal += 1
      await connect(['deal-closed', 'deal-stage-changed-orphan'])
      await tell(range(1, 60), 'w1')
      await backend.settled()
      expect(readsOf('associations')).toEqual([])

      portal += 1
      await connect(['deal-stage-changed', 'deal-stage-changed-orphan'])
      await tell(range(1, 60))
      await backend.settled()
      // One call for the contacts. All deals have one, so nobody asks for the companies.
      expect(readsOf('associations')).toHaveLength(1)
    })
  })

  describe('a workspace', () => {
    test('that Slack limits: its other channels wait too, and another workspace does not', async () => {
      const same = `${channel}x`
      const other = `${channel}y`
      await connect()
      await backend.connect({ portal: portal + 500_000, team, channel: same })
      await backend.connect({ portal: portal + 600_000, team: `${team}y`, channel: other })
      // Each channel has had a message.
      await tell([1])
      await backend.tell([stageChange(2, { portal: portal + 500_000 })])
      await backend.tell([stageChange(3, { portal: portal + 600_000 })])
      await backend.settled()

      let limited: number | undefined
      outside.answerPost = (call) => {
        if (call.channel !== channel || limited !== undefined) return undefined
        limited = call.atMs
        return { status: 429, headers: { 'Retry-After': '2' } }
      }
      await tell([4])
      await vi.waitFor(async () => {
        const [row] = await backend.database
          .select({ waits: sql<boolean>`${channels.nextAt} > now() + interval '1.1 seconds'` })
          .from(channels)
          .where(eq(channels.id, `${team}/${same}`))
        expect(row?.waits).toBe(true)
      }, 5_000)
      await backend.tell([stageChange(5, { portal: portal + 500_000 })])
      await backend.tell([stageChange(6, { portal: portal + 600_000 })])
      await backend.settled()
      const lastIn = (name: string) => outside.posts.findLast((post) => post.channel === name)
      expect([channel, same, other].map((name) => lastIn(name)?.text)).toEqual([
        expect.stringContaining('Deal 4'),
        expect.stringContaining('Deal 5'),
        expect.stringContaining('Deal 6'),
      ])
      const waited = (name: string) => (lastIn(name)?.atMs ?? 0) - (limited ?? 0)
      expect(waited(channel)).toBeGreaterThanOrEqual(2_000)
      expect(waited(same)).toBeGreaterThanOrEqual(2_000)
      expect(waited(other)).toBeLessThan(2_000)
    })

    test('takes twenty messages at once, and five a second after them', async () => {
      const names = range(0, 28).map((n) => `${channel}-${n}`)
      for (const name of names) await backend.connect({ portal, team, channel: name })
      await tell([1])
      await backend.settled()
      const times = outside.posts
        .filter((post) => names.includes(post.channel))
        .map((post) => post.atMs)
      expect(times).toHaveLength(28)
      expect((times[27] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(1_000)
    })
  })
})
