import { expect, test } from 'vitest'
import { sameChanges, toleranceMs } from '../../server/relay/receive/same-change.ts'

const change = (atMs: number, { dealId = '1', value = 'won', accountId = '7' } = {}) => ({
  crm: 'hubspot' as const,
  accountId,
  dealId,
  property: 'stage' as const,
  value,
  occurredAt: new Date(1_800_000_000_000 + atMs),
})
const times = (found: Map<{ occurredAt: Date }, { occurredAt: Date }>) =>
  [...found]
    .map((pair) => pair.map(({ occurredAt }) => occurredAt.getTime() - 1_800_000_000_000))
    .sort(([a = 0], [b = 0]) => a - b)

test('a change is known under a slightly different time, and only within the tolerance', () => {
  const known = [change(0)]
  expect(times(sameChanges([change(toleranceMs)], known))).toEqual([[toleranceMs, 0]])
  expect(times(sameChanges([change(-toleranceMs)], known))).toEqual([[-toleranceMs, 0]])
  expect(times(sameChanges([change(toleranceMs + 1)], known))).toEqual([])
})

test('another account, deal or value is another change', () => {
  const known = [change(0)]
  for (const other of [{ dealId: '2' }, { value: 'lost' }, { accountId: '8' }]) {
    expect(sameChanges([change(0, other)], known).size).toBe(0)
  }
})

test('several changes to one value are matched one to one, the nearest first', () => {
  // The deal was won three times within a minute, and two of these changes are known.
  const found = sameChanges(
    [change(0), change(20_000), change(40_000)],
    [change(21_000), change(39_500)],
  )
  expect(times(found)).toEqual([
    [20_000, 21_000],
    [40_000, 39_500],
  ])
})
