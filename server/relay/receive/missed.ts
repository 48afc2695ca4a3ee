// Gets what a search has found in the CRM, and stores the events that no webhook has brought, for the users who were
// connected when the change happened. It returns after the commit. A search may find thousands of changes, so it stores
// them part by part, and lets other work run in between.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Database } from '../../database/open.ts'
import { eventsStored } from '../../watch/metrics.ts'
import {
  type CrmEvent,
  firstOf,
  inOrder,
  insertEvents,
  sumOf,
  targetsOf,
  unknownOf,
  usersOf,
} from './store.ts'

/** The most changes from a search that are compared at once. This keeps the thread busy. */
const mostCompared = 300

/** Stores events of a search. @param aheadMs How far our clock is ahead of the CRM's. @returns how many were new. */
export async function storeMissed(
  { database, onStored }: { database: Database; onStored: () => void },
  found: readonly CrmEvent[],
  aheadMs: number,
): Promise<number> {
  const events = inOrder(found)
  let count = 0
  for (let start = 0; start < events.length; start += mostCompared) {
    // Nearly always, the webhooks have brought everything. Then no transaction is needed.
    let unknown = await unknownOf(database, events.slice(start, start + mostCompared))
    while (unknown.length > 0) {
      const { looked, stored } = await storeFirst(database, unknown, aheadMs)
      unknown = unknown.slice(looked)
      count += stored
      eventsStored.inc({ found_by: 'search' }, stored)
      onStored()
      await nextTurn()
    }
    await nextTurn()
  }
  return count
}

/** Stores the first of these events, those that are still missing. @returns how many it looked at, and how many it stored. */
async function storeFirst(
  database: Database,
  events: readonly CrmEvent[],
  aheadMs: number,
): Promise<{ looked: number; stored: number }> {
  return await database.transaction(async (tx) => {
    const targets = (await targetsOf(tx, events, 'search')).map((target) => ({
      ...target,
      sinceMs: target.sinceMs - aheadMs,
    }))
    const users = usersOf(targets)
    const first = firstOf(events, users)
    const wanted = first.filter((event) => users(event) > 0)
    const stored =
      wanted.length === 0 ? new Map() : await insertEvents(tx, wanted, targets, 'search')
    return { looked: first.length, stored: sumOf(stored) }
  })
}
