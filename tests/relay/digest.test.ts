import { describe, expect, test } from 'vitest'
import { databaseKinds } from '../database.ts'
import { dealsIn, shownIn } from './hubspot-webhook.ts'
import {
  answerPosts,
  backend,
  calls,
  changes,
  connect,
  nextAccount,
  outside,
  portal,
  posts,
  range,
  shareBackend,
  tell,
} from './shared.ts'

describe.each(databaseKinds)('on %s', (kind) => {
  shareBackend(kind)
  // Both databases get the same statements. What is not about them is tested on one.
  const describeOnce = describe.runIf(kind === 'PGlite')

  const said = () => posts().map(dealsIn)

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
  })
})
