import type { CrmEvent } from './store.ts'

/** HubSpot's webhooks and its history may give slightly different times for one change. */
export const toleranceMs = 60_000

/** A change as a webhook or a history reports it. Each of them has keys of its own. */
export type ReportedChange = Omit<CrmEvent, 'key'>

/**
 * How many known changes before a change, and how many after it, may be the same one. People give a deal the same
 * value only a few times within the tolerance. A script may do it thousands of times. Without a bound, that would
 * make millions of pairs.
 */
const mostNear = 5

/**
 * Finds the changes that are known already: same deal, property and value, at nearly the same time. A merged
 * deal is the same as those it was made of. Each known change is found once, by the nearest one.
 * @returns the known change of each change that has one.
 */
export function sameChanges<Reported extends ReportedChange, Known extends ReportedChange>(
  changes: readonly Reported[],
  known: readonly Known[],
): Map<Reported, Known> {
  const identified = known
    .toSorted((a, b) => a.occurredAt.getTime() - b.occurredAt.getTime())
    .flatMap((same) => identitiesOf(same).map((identity) => ({ identity, same })))
  const knownByIdentity = Map.groupBy(identified, ({ identity }) => identity)
  const pairs = changes.flatMap((change) => {
    const ms = change.occurredAt.getTime()
    return identitiesOf(change)
      .flatMap((identity) => {
        const sorted = knownByIdentity.get(identity) ?? []
        const next = firstIndex(
          sorted.length,
          (at) => (sorted[at]?.same.occurredAt.getTime() ?? 0) >= ms,
        )
        return sorted.slice(Math.max(0, next - mostNear), next + mostNear)
      })
      .map(({ same }) => ({ change, same, distanceMs: Math.abs(ms - same.occurredAt.getTime()) }))
      .filter(({ distanceMs }) => distanceMs <= toleranceMs)
  })
  const found = new Map<Reported, Known>()
  const taken = new Set<Known>()
  for (const { change, same } of pairs.sort((a, b) => a.distanceMs - b.distanceMs)) {
    if (found.has(change) || taken.has(same)) continue
    found.set(change, same)
    taken.add(same)
  }
  return found
}

/**
 * Binary search: returns the first index for which `holds` is true, or `length` if there is none. `holds` must
 * also be true for all later indexes.
 */
export function firstIndex(length: number, holds: (index: number) => boolean): number {
  let first = 0
  let end = length
  while (first < end) {
    const middle = (first + end) >> 1
    if (holds(middle)) end = middle
    else first = middle + 1
  }
  return first
}

/** One for each id that the deal has or had. Only the value, at the end, may contain a slash. */
function identitiesOf({ crm, accountId, property, value, ...deal }: ReportedChange): string[] {
  return dealIdsOf(deal).map((id) => `${crm}/${accountId}/${id}/${property}/${value}`)
}

/** The deal's id, and the ids of the deals that were merged into it. */
export const dealIdsOf = ({
  dealId,
  formerDealIds = [],
}: Pick<ReportedChange, 'dealId' | 'formerDealIds'>) => [dealId, ...formerDealIds]
