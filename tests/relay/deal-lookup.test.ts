import { describe, expect, test } from 'vitest'
import { formerValue } from '../../server/relay/deal-lookup.ts'

const at = (minute: number) => new Date(Date.UTC(2026, 10, 20, 12, minute))
const entered = (value: string, minute: number) => ({ value, at: at(minute) })

describe('where a deal came from', () => {
  test('is the stage before the one that it came into', () => {
    const history = [entered('a', 0), entered('b', 10), entered('c', 20)]
    expect(formerValue(history, { value: 'b', occurredAt: at(10) })).toBe('a')
    expect(formerValue(history, { value: 'c', occurredAt: at(20) })).toBe('b')
  })

  test('is by the nearest time when it came into a stage more than once within moments', () => {
    const seconds = (n: number) => new Date(at(0).getTime() + n * 1000)
    const values = ['a', 'b', 'c', 'b', 'd', 'b']
    const history = values.map((value, n) => ({ value, at: seconds(n * 10) }))
    // The webhook's time and the history's may differ a little.
    const from = (second: number) =>
      formerValue(history, { value: 'b', occurredAt: seconds(second + 0.9) })
    expect([from(10), from(30), from(50)]).toEqual(['a', 'c', 'd'])
  })

  test('is the last other stage before the event while the history lags behind', () => {
    const history = [entered('a', 0), entered('b', 10)]
    expect(formerValue(history, { value: 'c', occurredAt: at(20) })).toBe('b')
    // What came after the event was not before it.
    const later = [...history, entered('d', 30)]
    expect(formerValue(later, { value: 'c', occurredAt: at(20) })).toBe('b')
    // It was in this stage long ago: that is not this event.
    expect(formerValue(history, { value: 'a', occurredAt: at(20) })).toBe('b')
    const same = [entered('a', 0), entered('b', 5), entered('c', 10)]
    expect(formerValue(same, { value: 'c', occurredAt: at(20) })).toBe('b')
    expect(formerValue([], { value: 'c', occurredAt: at(20) })).toBeUndefined()
  })

  test('is nowhere for a deal that was made in the stage', () => {
    expect(formerValue([entered('a', 0)], { value: 'a', occurredAt: at(0) })).toBeNull()
  })

  test('is unknown when HubSpot may have left out the oldest stages', () => {
    const history = Array.from({ length: 20 }, (_, n) => entered(`s${n}`, n))
    const first = { value: 's0', occurredAt: at(0) }
    expect(formerValue(history, first)).toBeUndefined()
    expect(formerValue(history.slice(0, 19), first)).toBeNull()
    expect(formerValue(history, { value: 's1', occurredAt: at(1) })).toBe('s0')
  })
})
