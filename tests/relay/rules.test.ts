import { describe, expect, test } from 'vitest'
import { type AvailableRuleId, availableRuleIds } from '../../contract/rules.ts'
import { dealRules, decide, mayNeedLinks, possibleRules } from '../../server/relay/decide/rules.ts'
import { stageFinder } from '../../server/relay/decide/stages.ts'
import { stageMove, stages } from './change.ts'

const { open, next, won, lost } = stages
const all = availableRuleIds
const only = (id: string) => new Set([id])
const final = { mayLookAgain: false }
const first = { mayLookAgain: true }
const send = (ruleId: string) => ({ kind: 'send', ruleId, headline: expect.anything() })
const nothing = { kind: 'nothing' }
const lookAgain = { kind: 'look again' }

const orphan = { linked: false }
const closed = 'deal-closed'
const changed = 'deal-stage-changed'
const unlinked = 'deal-stage-changed-orphan'

test.each([
  ['any two stages', stageMove(open, next), only(changed), first, send(changed)],
  ['any two stages, also closed ones', stageMove(open, lost), only(changed), first, send(changed)],
  ['an unknown old stage', stageMove(undefined, next), all, final, send(changed)],
  ['a deal that is won', stageMove(open, won), only(closed), first, send(closed)],
  ['a deal that is lost after all', stageMove(won, lost), only(closed), first, send(closed)],
  ['a deal that was created closed', stageMove(null, lost), only(closed), first, send(closed)],
  ['a deal that is opened again', stageMove(won, open), only(closed), first, nothing],
  ['no link at the first read', stageMove(open, next, orphan), only(unlinked), first, lookAgain],
  [
    'no link at the last read',
    stageMove(open, next, orphan),
    only(unlinked),
    final,
    send(unlinked),
  ],
  ['a link', stageMove(open, next), only(unlinked), final, nothing],
  // Of several rules, the first.
  ['closed without a link', stageMove(open, won, orphan), all, first, send(closed)],
  ['moved without a link', stageMove(open, next, orphan), all, final, send(unlinked)],
  ['moved with a link', stageMove(open, next), all, final, send(changed)],
  ['the same stage', stageMove(open, open), all, final, nothing],
  ['a new deal', stageMove(null, next, orphan), all, final, nothing],
  ['no ticked rule', stageMove(open, won), new Set<string>(), final, nothing],
  ['another property', { ...stageMove(open, won), property: 'owner' }, all, final, nothing],
] as const)('the ticked rules decide what is sent for %s', (_, change, ticked, look, decision) => {
  expect(decide(change, ticked, look)).toEqual(decision)
})

describe('what must be read for a decision', () => {
  const stage = stageFinder(new Map(Object.values(stages).map((each) => [each.id, each])))
  const of = { property: 'stage', from: undefined, stage } as const
  const possible = (to: { id: string }, ...ticked: string[]) =>
    possibleRules({ ...of, to: to.id }, new Set(ticked))
  const idsOf = (...of: Parameters<typeof possible>) => possible(...of).map(([id]) => id)

  test("is nothing of a deal that moves to an open stage, if only 'closed' is ticked", () => {
    expect(idsOf(next, 'deal-closed')).toEqual([])
    expect(idsOf(won, 'deal-closed')).toEqual(['deal-closed'])
    expect(idsOf(next, ...all)).toEqual(['deal-stage-changed-orphan', 'deal-stage-changed'])
    expect(possibleRules({ ...of, property: 'owner', to: won.id }, new Set(all))).toEqual([])
  })

  test('is nothing of a new deal, unless it is closed', () => {
    const ofNew = (to: { id: string }) =>
      possibleRules({ ...of, from: null, to: to.id }, new Set(all)).map(([id]) => id)
    expect(ofNew(next)).toEqual([])
    expect(ofNew(won)).toEqual(['deal-closed'])
  })

  test('includes contacts and companies only if the rule about them can decide', () => {
    const mayNeed = (...of: Parameters<typeof possible>) => mayNeedLinks(possible(...of))
    expect(mayNeed(next, ...all)).toBe(true)
    expect(mayNeed(won, 'deal-stage-changed-orphan')).toBe(true)
    // A closed deal is sent under the rule that comes first, with or without links.
    expect(mayNeed(won, ...all)).toBe(false)
    expect(mayNeed(next, 'deal-stage-changed', 'deal-closed')).toBe(false)
  })
})

test('a rule that is offered without an entry does not compile', () => {
  const rules: object = dealRules
  // @ts-expect-error The entry is missing.
  dealRules satisfies Record<AvailableRuleId | 'a-rule-without-an-entry', unknown>
  expect(Object.keys(rules).toSorted()).toEqual([...availableRuleIds].toSorted())
})
