import { describe, expect, test } from 'vitest'
import { outcomeOf } from '../../server/providers/hubspot/hubspot.ts'
import type { Stage } from '../../server/providers/provider.ts'
import { decide } from '../../server/relay/decide.ts'

const open: Stage = { id: 'a', label: 'Closed won', outcome: 'open' }
const next: Stage = { id: 'b', label: 'Proposal', outcome: 'open' }
const won: Stage = { id: '12345', label: 'Hurra', outcome: 'won' }
const lost: Stage = { id: '12346', label: 'Schade', outcome: 'lost' }

const all = new Set(['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan'])
const only = (id: string) => new Set([id])
const final = { mayLookAgain: false }
const first = { mayLookAgain: true }

describe('which rule a move is said under', () => {
  test('a stage change, whatever the stages', () => {
    for (const to of [next, won, lost]) {
      expect(decide({ from: open, to, linked: true }, only('deal-stage-changed'), first)).toEqual({
        kind: 'say',
        ruleId: 'deal-stage-changed',
      })
    }
  })

  test('a closed deal, won or lost, even one that was created closed', () => {
    for (const from of [open, won, undefined, null]) {
      expect(decide({ from, to: lost, linked: true }, only('deal-closed'), first)).toEqual({
        kind: 'say',
        ruleId: 'deal-closed',
      })
    }
    expect(decide({ from: won, to: open, linked: true }, only('deal-closed'), first)).toEqual({
      kind: 'nothing',
    })
  })

  test('a deal without links is looked at again before it is said', () => {
    const move = { from: open, to: next, linked: false }
    const ticked = only('deal-stage-changed-orphan')
    expect(decide(move, ticked, first)).toEqual({ kind: 'look again' })
    expect(decide(move, ticked, final)).toEqual({
      kind: 'say',
      ruleId: 'deal-stage-changed-orphan',
    })
    expect(decide({ ...move, linked: true }, ticked, final)).toEqual({ kind: 'nothing' })
  })

  test('one message names the most telling rule', () => {
    expect(decide({ from: open, to: won, linked: false }, all, first)).toEqual({
      kind: 'say',
      ruleId: 'deal-closed',
    })
    expect(decide({ from: open, to: next, linked: false }, all, final)).toEqual({
      kind: 'say',
      ruleId: 'deal-stage-changed-orphan',
    })
    expect(decide({ from: open, to: next, linked: true }, all, final)).toEqual({
      kind: 'say',
      ruleId: 'deal-stage-changed',
    })
  })

  test('a move to the same stage, a new deal and an empty selection say nothing', () => {
    expect(decide({ from: open, to: open, linked: true }, all, final)).toEqual({ kind: 'nothing' })
    expect(decide({ from: null, to: next, linked: false }, all, final)).toEqual({ kind: 'nothing' })
    expect(decide({ from: open, to: won, linked: false }, new Set(), final)).toEqual({
      kind: 'nothing',
    })
  })

  test('a former stage that is not known does not hide the change', () => {
    expect(decide({ from: undefined, to: next, linked: true }, all, final)).toEqual({
      kind: 'say',
      ruleId: 'deal-stage-changed',
    })
  })
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
