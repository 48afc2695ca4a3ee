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
type Change = ReturnType<typeof change>
/** The times of the pairs that are found. */
const pairs = (changes: Change[], known: Change[]) =>
  [...sameChanges(changes, known)]
    .map((pair) => pair.map(({ occurredAt }) => occurredAt.getTime() - 1_800_000_000_000))
    .sort(([a = 0], [b = 0]) => a - b)

test.each([
  ['a time at the end of the tolerance', change(toleranceMs), [[toleranceMs, 0]]],
  ['a time at the beginning of it', change(-toleranceMs), [[-toleranceMs, 0]]],
  ['a time beyond it', change(toleranceMs + 1), []],
  ['another deal', change(0, { dealId: '2' }), []],
  ['another value', change(0, { value: 'lost' }), []],
  ['another account', change(0, { accountId: '8' }), []],
])('a change is known only under nearly its own time: %s', (_, of, found) => {
  expect(pairs([of], [change(0)])).toEqual(found)
})

test('several changes to one value are matched one to one, the nearest first', () => {
  // The deal was won three times within a minute, and two of these changes are known.
  const won = [change(0), change(20_000), change(40_000)]
  expect(pairs(won, [change(21_000), change(39_500)])).toEqual([
    [20_000, 21_000],
    [40_000, 39_500],
  ])
})
