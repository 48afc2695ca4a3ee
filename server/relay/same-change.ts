import type { DealEvent } from '../providers/provider.ts'
import type { CrmId } from '../providers/registry.ts'

/** HubSpot's webhooks and its history may give slightly different times for one change. */
export const toleranceMs = 60_000

export type Change = Omit<DealEvent, 'key'> & { crm: CrmId }

/**
 * Finds the changes that are known already: same deal, property and value, at nearly the same time. A merged
 * deal is the same as those it was made of. Each known change is found once, by the nearest one.
 * @returns the known change of each change that has one.
 */
export function sameChanges<Reported extends Change, Known extends Change>(
  changes: readonly Reported[],
  known: readonly Known[],
): Map<Reported, Known> {
  const identified = known.flatMap((same) =>
    identitiesOf(same).map((identity) => ({ identity, same })),
  )
  const knownByIdentity = Map.groupBy(identified, ({ identity }) => identity)
  const pairs = changes.flatMap((change) =>
    identitiesOf(change)
      .flatMap((identity) => knownByIdentity.get(identity) ?? [])
      .map(({ same }) => ({
        change,
        same,
        distanceMs: Math.abs(change.occurredAt.getTime() - same.occurredAt.getTime()),
      })),
  )
  const found = new Map<Reported, Known>()
  const taken = new Set<Known>()
  for (const { change, same, distanceMs } of pairs.sort((a, b) => a.distanceMs - b.distanceMs)) {
    if (distanceMs > toleranceMs) break
    if (found.has(change) || taken.has(same)) continue
    found.set(change, same)
    taken.add(same)
  }
  return found
}

/** One for each id that the deal has or had. */
function identitiesOf({ crm, accountId, property, value, ...deal }: Change): string[] {
  return dealIdsOf(deal).map((id) => JSON.stringify([crm, accountId, id, property, value]))
}

/** The deal's id, and the ids of the deals that were merged into it. */
export const dealIdsOf = ({
  dealId,
  formerDealIds = [],
}: Pick<Change, 'dealId' | 'formerDealIds'>) => [dealId, ...formerDealIds]
