// Gets what a search has found in the CRM, and stores the events that no webhook has brought, for the users who were
// connected when the change happened. It returns after the commit. A search may find thousands of changes, so it stores
// them part by part, and lets other work run in between.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Database } from '../../database/open.ts'
import type { Providers } from '../../providers/provider.ts'
import { eventsStored } from '../../watch/metrics.ts'
import { type FoundEvents, unknownOf } from './known.ts'
import { byTime, type CrmEvent, firstOf, insertEvents, targetsOf, usersOf } from './store.ts'

/** The most changes from a search that are stored at once. To find those that are known also blocks the thread. */
const mostCompared = 300

/**
 * Stores those events of a search that are not known yet.
 * @param aheadMs How far our clock is ahead of the CRM's.
 * @param onStored is called after each transaction.
 * @returns how many it stored.
 */
export async function storeMissed(
  { database, providers, onStored }: Dependencies & { onStored: () => void },
  found: readonly CrmEvent[],
  aheadMs: number,
): Promise<number> {
  // A history may name the same change twice.
  const events = [...new Map(found.map((event) => [event.key, event])).values()].sort(byTime)
  let count = 0
  for (let start = 0; start < events.length; start += mostCompared) {
    const end = start + mostCompared
    const part = {
      events: events.slice(start, end),
      near: [
        ...events.slice(Math.max(0, start - mostCompared), start),
        ...events.slice(end, end + mostCompared),
      ],
    }
    // Nearly always, the webhooks have brought everything. Then no transaction is needed.
    while ((await unknownOf(database, part)).length > 0) {
      const stored = await storeFirst({ database, providers }, part, aheadMs)
      if (stored === 0) break
      count += stored
      eventsStored.inc({ found_by: 'search' }, stored)
      onStored()
      await nextTurn()
    }
    await nextTurn()
  }
  return count
}

interface Dependencies {
  database: Database
  providers: Providers
}

/** Stores the first of these events that are missing. @returns how many. */
async function storeFirst(
  { database, providers }: Dependencies,
  found: FoundEvents,
  aheadMs: number,
): Promise<number> {
  return await database.transaction(async (tx) => {
    const targets = (await targetsOf(tx, providers, found.events, 'exclusive')).map((target) => ({
      ...target,
      sinceMs: target.sinceMs - aheadMs,
    }))
    const missed = (await unknownOf(tx, found)).filter(({ crm, accountId, occurredAt }) =>
      targets.some(
        (target) =>
          target.crm === crm &&
          target.account === accountId &&
          target.sinceMs <= occurredAt.getTime(),
      ),
    )
    const first = firstOf(missed, usersOf(targets))
    return first.length === 0 ? 0 : await insertEvents(tx, first, targets, { foundBy: 'search' })
  })
}
