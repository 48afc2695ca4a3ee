import { describe, expect, test } from 'vitest'
import { formerStageId } from '../../server/relay/deal-lookup.ts'

const at = (minute: number) => new Date(Date.UTC(2026, 10, 20, 12, minute))
const entered = (stageId: string, minute: number) => ({ stageId, at: at(minute) })

describe('where a deal came from', () => {
  test('is the stage before the one that it came into', () => {
    const history = [entered('a', 0), entered('b', 10), entered('c', 20)]
    expect(formerStageId(history, { stageId: 'b', occurredAt: at(10) })).toBe('a')
    expect(formerStageId(history, { stageId: 'c', occurredAt: at(20) })).toBe('b')
  })

  test('is by the nearest time when it came into a stage more than once within moments', () => {
    const seconds = (n: number) => new Date(at(0).getTime() + n * 1000)
    const stageIds = ['a', 'b', 'c', 'b', 'd', 'b']
    const history = stageIds.map((stageId, n) => ({ stageId, at: seconds(n * 10) }))
    // The webhook's time and the history's may differ a little.
    const from = (second: number) =>
      formerStageId(history, { stageId: 'b', occurredAt: seconds(second + 0.9) })
    expect([from(10), from(30), from(50)]).toEqual(['a', 'c', 'd'])
  })

  test('is the last other stage before the event while the history lags behind', () => {
    const history = [entered('a', 0), entered('b', 10)]
    expect(formerStageId(history, { stageId: 'c', occurredAt: at(20) })).toBe('b')
    // What came after the event was not before it.
    const later = [...history, entered('d', 30)]
    expect(formerStageId(later, { stageId: 'c', occurredAt: at(20) })).toBe('b')
    // It was in this stage long ago: that is not this event.
    expect(formerStageId(history, { stageId: 'a', occurredAt: at(20) })).toBe('b')
    const same = [entered('a', 0), entered('b', 5), entered('c', 10)]
    expect(formerStageId(same, { stageId: 'c', occurredAt: at(20) })).toBe('b')
    expect(formerStageId([], { stageId: 'c', occurredAt: at(20) })).toBeUndefined()
  })

  test('is nowhere for a deal that was made in the stage', () => {
    expect(formerStageId([entered('a', 0)], { stageId: 'a', occurredAt: at(0) })).toBeNull()
  })

  test('is unknown when HubSpot may have left out the oldest stages', () => {
    const history = Array.from({ length: 20 }, (_, n) => entered(`s${n}`, n))
    const first = { stageId: 's0', occurredAt: at(0) }
    expect(formerStageId(history, first)).toBeUndefined()
    expect(formerStageId(history.slice(0, 19), first)).toBeNull()
    expect(formerStageId(history, { stageId: 's1', occurredAt: at(1) })).toBe('s0')
  })
})
