import { describe, expect, test } from 'vitest'
import { type AvailableRuleId, availableRuleIds } from '../../contract/rules.ts'
import { createHubspot } from '../../server/providers/hubspot/hubspot.ts'
import { outcomeOf } from '../../server/providers/hubspot/stages-and-owners.ts'
import type { Crm } from '../../server/providers/provider.ts'
import {
  dealRules,
  decide,
  mayNeedLinks,
  needsLinks,
  possibleRules,
} from '../../server/relay/decide/rules.ts'
import { stageMove, stages } from './change.ts'

const { open, next, won, lost } = stages
const settings = { clientId: '', clientSecret: '', authorizeUrl: '', apiUrl: '', standIn: false }
const all = availableRuleIds
const only = (id: string) => new Set([id])
const final = { mayLookAgain: false }
const first = { mayLookAgain: true }
const send = (ruleId: string) => ({ kind: 'send', ruleId, headline: expect.anything() })
const nothing = { kind: 'nothing' }

describe('the rule under which a change is sent', () => {
  test("is 'a stage changes' for any two stages", () => {
    for (const to of [next, won, lost]) {
      const decision = decide(stageMove(open, to), only('deal-stage-changed'), first)
      expect(decision).toEqual(send('deal-stage-changed'))
    }
  })

  test("is 'closed' for a deal that is won or lost, even one that was created closed", () => {
    for (const from of [open, won, undefined, null]) {
      const decision = decide(stageMove(from, lost), only('deal-closed'), first)
      expect(decision).toEqual(send('deal-closed'))
    }
    expect(decide(stageMove(won, open), only('deal-closed'), first)).toEqual(nothing)
  })

  test("is 'without a contact or company' only after the deal was read a second time", () => {
    const orphan = stageMove(open, next, { linked: false })
    const ticked = only('deal-stage-changed-orphan')
    expect(decide(orphan, ticked, first)).toEqual({ kind: 'look again' })
    expect(decide(orphan, ticked, final)).toEqual(send('deal-stage-changed-orphan'))
    expect(decide(stageMove(open, next), ticked, final)).toEqual(nothing)
  })

  test('is the one with the highest rank of those that apply', () => {
    const orphan = { linked: false }
    expect(decide(stageMove(open, won, orphan), all, first)).toEqual(send('deal-closed'))
    expect(decide(stageMove(open, next, orphan), all, final)).toEqual(
      send('deal-stage-changed-orphan'),
    )
    expect(decide(stageMove(open, next), all, final)).toEqual(send('deal-stage-changed'))
    const ranks = Object.values(dealRules).map(({ property, rank }) => `${property} ${rank}`)
    expect(new Set(ranks).size).toBe(ranks.length)
  })

  test('does not exist for a move to the same stage, a new deal or an empty selection', () => {
    expect(decide(stageMove(open, open), all, final)).toEqual(nothing)
    expect(decide(stageMove(null, next, { linked: false }), all, final)).toEqual(nothing)
    expect(decide(stageMove(open, won), new Set(), final)).toEqual(nothing)
  })

  test('does not depend on the old stage being known', () => {
    expect(decide(stageMove(undefined, next), all, final)).toEqual(send('deal-stage-changed'))
  })

  test('is never one about another property', () => {
    const change = { ...stageMove(open, won), property: 'owner' as const }
    expect(decide(change, all, final)).toEqual(nothing)
  })
})

describe('what must be read for a decision', () => {
  const stage = (id: string) =>
    Object.values(stages).find((each) => each.id === id) ?? {
      id,
      label: id,
      outcome: 'open' as const,
    }
  const idsOf = (to: { id: string }, ...ticked: string[]) =>
    possibleRules('stage', to.id, new Set(ticked), stage).map(([id]) => id)

  test("is nothing of a deal that moves to an open stage, if only 'closed' is ticked", () => {
    expect(idsOf(next, 'deal-closed')).toEqual([])
    expect(idsOf(won, 'deal-closed')).toEqual(['deal-closed'])
    expect(idsOf(next, ...all)).toEqual(['deal-stage-changed-orphan', 'deal-stage-changed'])
    expect(possibleRules('owner', won.id, new Set(all), stage)).toEqual([])
  })

  test('includes contacts and companies only if the rule about them can decide', () => {
    const mayNeed = (to: { id: string }, ...ticked: string[]) =>
      mayNeedLinks(possibleRules('stage', to.id, new Set(ticked), stage))
    expect(mayNeed(next, ...all)).toBe(true)
    expect(mayNeed(won, 'deal-stage-changed-orphan')).toBe(true)
    // A closed deal is sent under the higher rank, with or without links.
    expect(mayNeed(won, ...all)).toBe(false)
    expect(mayNeed(next, 'deal-stage-changed', 'deal-closed')).toBe(false)
  })

  test('includes no contacts and companies of a deal that was created in its stage', () => {
    expect(needsLinks(stageMove(open, next), new Set(all))).toBe(true)
    expect(needsLinks(stageMove(undefined, next), new Set(all))).toBe(true)
    expect(needsLinks(stageMove(null, next), new Set(all))).toBe(false)
    expect(needsLinks(stageMove(next, next), new Set(all))).toBe(false)
  })
})

test('a rule that is offered without an entry does not compile', () => {
  const rules: object = dealRules
  // @ts-expect-error The entry is missing.
  dealRules satisfies Record<AvailableRuleId | 'a-rule-without-an-entry', unknown>
  expect(Object.keys(rules).toSorted()).toEqual([...availableRuleIds].toSorted())
})

test('a provider that cannot do all that the relay needs does not compile', () => {
  const { refresh, ...incomplete } = createHubspot(settings)
  // @ts-expect-error `refresh` is missing.
  incomplete satisfies Crm
  expect(refresh).toBeTypeOf('function')
})

test.each([
  [{ isClosed: 'true', probability: '1.0' }, 'won'],
  [{ isClosed: 'true', probability: '1' }, 'won'],
  [{ isClosed: 'true', probability: '0.0' }, 'lost'],
  [{ isClosed: 'true', probability: '0.5' }, 'closed'],
  [{ isClosed: 'true', probability: '' }, 'closed'],
  [{ isClosed: 'true' }, 'closed'],
  [{ isClosed: 'false', probability: '1.0' }, 'open'],
  [{ isClosed: true, probability: '1.0' }, 'open'],
  [{}, 'open'],
] as const)('stage metadata %j is %s', (metadata, outcome) => {
  expect(outcomeOf(metadata)).toBe(outcome)
})
