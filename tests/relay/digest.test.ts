import { eq } from 'drizzle-orm'
import { describe, expect, test, vi } from 'vitest'
import { replayDead } from '../../server/activity/operator.ts'
import { deliveries } from '../../server/database/schema.ts'
import { databaseKinds } from '../database.ts'
import { dealIn, dealsIn, shownIn } from './hubspot-webhook.ts'
import {
  answerPosts,
  backend,
  calls,
  changes,
  channel,
  connect,
  holdChannel,
  isIdle,
  nextAccount,
  open,
  outside,
  portal,
  posts,
  range,
  refusePosts,
  shareBackend,
  team,
  tell,
  tellBeforeDelay,
} from './shared.ts'

describe.each(databaseKinds)('on %s', (kind) => {
  shareBackend(kind)
  // Both databases get the same statements. What is not about them is tested on one.
  const describeOnce = describe.runIf(kind === 'PGlite')

  const said = () => posts().map(dealsIn)
  const readsOf = (part: string) => outside.reads.filter((path) => path.includes(part))

  describe('a digest', () => {
    test('covers thirty events in their order, each with its link, stages and amount', async () => {
      const userId = await connect()
      outside.deals.set('3', { name: 'Deal 3', amount: '1200', currency: 'USD' })
      await tell(range(1, 36))
      await backend.settled()
      expect(said()).toEqual([range(1, 30), range(31, 6)])
      expect(posts()[0]?.text).toBe('30 deals moved')
      expect(shownIn(posts()[0]?.blocks ?? '')[1]).toContain(
        `• <https://app.hubspot.com/contacts/${portal}/record/0-3/3|Deal 3>  Appointment → Proposal sent  ·  $1,200`,
      )
      expect(await backend.outcomes(userId)).toEqual(range(1, 36).map(() => ['sent', null]))
    })

    test('and the same events for two users of a channel: each event comes once', async () => {
      const users = [
        await connect(),
        await connect({ ruleIds: ['deal-stage-changed', 'deal-closed'] }),
      ]
      await tell(range(1, 40))
      await backend.settled()
      const inOrder = said()
        .flat()
        .toSorted((a, b) => a - b)
      expect(inOrder).toEqual(range(1, 40))
      const outcomes = (await Promise.all(users.map(backend.outcomes))).flat()
      expect(outcomes.filter(([, reason]) => reason === 'said_in_channel')).toHaveLength(40)
      // Also those that the other user's message said are stored with what it said.
      const labels = { fromLabel: 'Appointment', toLabel: 'Proposal sent' }
      const shown = range(1, 40).map((deal) => ({
        ruleId: 'deal-stage-changed',
        dealName: `Deal ${deal}`,
        ...labels,
      }))
      for (const user of users) expect(await backend.shown(user)).toEqual(shown)
    })

    test('whose connection Slack refuses is dead, and a replay sends it', async () => {
      const userId = await connect()
      refusePosts('token_revoked')
      await tell(range(1, 36))
      await backend.settled()
      expect(calls()).toHaveLength(2)
      const dead = range(1, 36).map(() => ['dead', 'token_revoked'])
      expect(await backend.outcomes(userId)).toEqual(dead)
      answerPosts(() => undefined)
      await backend.connectAgain(userId, { portal, team, channel })
      await replayDead(backend.database)
      backend.relay.wake()
      await backend.settled()
      expect(said()).toEqual([range(1, 30), range(31, 6)])
    })
  })

  describeOnce('a digest', () => {
    test('is sent for six that wait, and not for five: these come in order', async () => {
      const userId = await connect()
      await backend.tell(changes(range(1, 5)).toReversed())
      await outside.accepted(() => posts().length === 2)
      expect(said()).toEqual([[1], [2]])
      await backend.disconnect(userId, 'slack')

      nextAccount()
      await connect()
      await tell(range(11, 6))
      await backend.settled()
      expect(said()).toEqual([range(11, 6)])
    })

    test('leaves out what needs no message, and looks as far as it must', async () => {
      const userId = await connect({ ruleIds: ['deal-closed'] })
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

    test('ends before an event that must wait, and the next one begins with it', async () => {
      await connect({ ruleIds: ['deal-stage-changed', 'deal-stage-changed-orphan'] })
      outside.deals.set('10', { linked: false })
      await tellBeforeDelay(range(1, 20), ['10'])
      await backend.settled()
      expect(said()).toEqual([range(1, 9), range(10, 11)])
      expect(posts()[1]?.blocks).toContain('No contact or company on this deal')
      expect(posts()[0]?.blocks).not.toContain('No contact or company on this deal')
    })

    test('has merged deals under their new ids, and does without a deal that is gone', async () => {
      const userId = await connect({ ruleIds: ['deal-stage-changed-orphan'] })
      for (const deal of [...range(1, 8), 40]) outside.deals.set(String(deal), { linked: false })
      // The first one has its links only there.
      outside.merged.set('3', '30')
      outside.merged.set('4', '40')
      outside.missing.add('6')
      await tell(range(1, 8))
      await backend.settled()
      expect(said()).toEqual([[1, 2, 40, 5, 7, 8]])
      expect((await backend.outcomes(userId))[5]).toEqual(['ignored', 'no_such_deal'])
    })

    test('that Slack refuses is sent as single messages, in order', async () => {
      const userId = await connect()
      const refused = { status: 200, body: '{"ok":false,"error":"msg_blocks_too_long"}' }
      answerPosts((call) => (dealsIn(call).length > 1 ? refused : undefined))
      await tell(range(1, 6))
      await outside.accepted(() => posts().length === 2)
      expect(calls().map(dealsIn)).toEqual([range(1, 6), [1], [2]])
      await backend.disconnect(userId, 'slack')
    })

    test('that may be a repetition stays one message, also if the user unticks a rule meanwhile', async () => {
      const userId = await connect({ ruleIds: ['deal-closed', 'deal-stage-changed'] })
      const free = await holdChannel()
      await tell(range(1, 3), 'w1')
      await tell(range(4, 3))
      // As after a crash: nobody knows whether Slack got these six as one message.
      const claimed = { sendingUntil: new Date(Date.now() - 1_000) }
      await backend.database.update(deliveries).set(claimed).where(eq(deliveries.userId, userId))
      await backend.tick(userId, 'deal-closed')
      await free()
      await backend.settled()
      expect(said()).toEqual([range(1, 3)])
    })
  })

  describeOnce('whatever the database,', () => {
    // PGlite's client counts them.
    test('one message takes three statements, and a digest takes one more', async () => {
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
    })

    test('a read of a deal serves all users and all tries of an event', async () => {
      const names = [channel, `${channel}x`, `${channel}y`]
      for (const name of names) await connect({ channel: name })
      let failures = 4
      outside.answerPost = () => (failures-- > 0 ? { status: 500 } : undefined)
      await tell([1])
      await backend.settled()
      const told = outside.posts.filter((post) => names.includes(post.channel))
      expect(told.map(dealIn)).toEqual([1, 1, 1])
      expect(readsOf('0-3/')).toHaveLength(1)
    })

    test('contacts and companies are read only if a ticked rule asks for them', async () => {
      await connect({ ruleIds: ['deal-stage-changed', 'deal-closed'] })
      await tell(range(1, 60))
      await backend.settled()
      expect(readsOf('associations')).toEqual([])
      expect(readsOf('batch/read')).toHaveLength(2)

      nextAccount()
      await connect({ ruleIds: ['deal-stage-changed', 'deal-stage-changed-orphan'] })
      await tell(range(1, 60))
      await backend.settled()
      // One call for the contacts. All deals have one, so nobody asks for the companies.
      expect(readsOf('associations')).toHaveLength(1)
    })
  })
})
