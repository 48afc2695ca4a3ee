import type { DealEvent } from '../providers/provider.ts'
import type { CrmId } from '../providers/registry.ts'

/** HubSpot's webhooks and its history may give slightly different times for one change. */
export const toleranceMs = 60_000

export type Change = Omit<DealEvent, 'key'> & { crm: CrmId }

/**
 * Finds the changes that are known already: same deal, property and value, at nearly the same time. Each
 * known change is found once, by the nearest one. @returns the known change of each change that has one.
 */
export function sameChanges<Reported extends Change, Known extends Change>(
  changes: readonly Reported[],
  known: readonly Known[],
): Map<Reported, Known> {
  const knownByValue = Map.groupBy(known, identityOf)
  const pairs = changes.flatMap((change) =>
    (knownByValue.get(identityOf(change)) ?? []).map((same) => ({
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

function identityOf({ crm, accountId, dealId, property, value }: Change): string {
  return JSON.stringify([crm, accountId, dealId, property, value])
}
