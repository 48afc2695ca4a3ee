// The first stage. It gets events: from webhooks, and from the search for missed changes. It stores each event, and a
// delivery of it for each user of the account. It returns after the commit, so an acknowledged event is not lost. An
// event that is reported several times, also by a webhook and a search, is stored once.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import type { Database } from '../../database/open.ts'
import type { DealEvent } from '../../providers/deal.ts'
import type { CrmId } from '../../providers/registry.ts'
import { eventsStored } from '../../watch/metrics.ts'
import { failpoint } from '../failpoint.ts'
import { storeMissed } from './missed.ts'
import {
  accountOf,
  type CrmEvent,
  firstOf,
  inOrder,
  insertEvents,
  maxRowsAtOnce,
  sumOf,
  targetsOf,
  usersOf,
} from './store.ts'

export interface Inbox {
  /**
   * Stores the new events and their deliveries. Resolves after the commit.
   * @param mostAnHour of the account of these events.
   * @throws TooManyEvents
   */
  store(crm: CrmId, events: readonly DealEvent[], mostAnHour?: number): Promise<void>
  /**
   * Stores those events of a search that no webhook has brought, for the users who were connected when the change happened.
   * `events` must contain all changes of these deals and properties in the searched time.
   * @param aheadMs How far our clock is ahead of the CRM's.
   * @returns how many it stored.
   */
  storeFound(crm: CrmId, events: readonly DealEvent[], aheadMs: number): Promise<number>
}

/** So many events of the account were stored within an hour that no more are. */
export class TooManyEvents extends Error {}

interface StoreCall {
  events: readonly CrmEvent[]
  resolve: () => void
  reject: (error: unknown) => void
}

/** @param onStored is called after each transaction. */
export function createInbox(database: Database, onStored: () => void): Inbox {
  /** Only new events count: each user's webhook may tell of the same one. Each process counts what it stores. */
  const ofHour = new RateLimiterMemory({ points: 0, duration: 60 * 60 })
  let queue: StoreCall[] = []
  let storing = false

  /** A transaction has a fixed cost, so webhooks that arrive during one share the next one. */
  async function storeQueue(): Promise<void> {
    storing = true
    while (queue.length > 0) {
      await readArrivedRequests()
      let count = 0
      queue = inTurns(queue)
      const batch = queue.filter(({ events }, at) => {
        count += events.length
        return at === 0 || count <= maxRowsAtOnce
      })
      queue = queue.slice(batch.length)
      try {
        const { first, inserted } = await storeEvents(
          database,
          batch.flatMap(({ events }) => events),
        )
        for (const [account, count] of inserted) await ofHour.penalty(account, count)
        let stored = first
        const next: StoreCall[] = []
        for (const each of batch) {
          const rest = each.events.slice(stored)
          stored = Math.max(0, stored - each.events.length)
          if (rest.length === 0) each.resolve()
          // A webhook that is too large for one transaction goes to the end of the queue.
          else (each === batch[0] ? queue : next).push({ ...each, events: rest })
        }
        queue.unshift(...next)
        onStored()
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    storing = false
  }

  /** Reads requests that arrived during a transaction: PGlite keeps this thread busy until its end. */
  async function readArrivedRequests(): Promise<void> {
    let known: number
    do {
      known = queue.length
      await nextTurn()
    } while (queue.length > known)
  }

  return {
    async store(crm, received, mostAnHour = Number.POSITIVE_INFINITY) {
      const [one] = received
      if (one === undefined) return
      const counted = await ofHour.get(accountOf({ ...one, crm }))
      if (counted !== null && counted.consumedPoints >= mostAnHour) throw new TooManyEvents()
      await new Promise<void>((resolve, reject) => {
        // In order of occurrence, because the relay may send the first ones before all are stored.
        const events = inOrder(received.map((event) => ({ ...event, crm })))
        queue.push({ events, resolve, reject })
        if (!storing) void storeQueue()
      })
    },

    async storeFound(crm, found, aheadMs) {
      const events = found.map((event) => ({ ...event, crm }))
      return await storeMissed({ database, onStored }, events, aheadMs)
    },
  }
}

/** The calls in another order: each account's first one, then each one's second. One that tells much stops no other. */
function inTurns(calls: readonly StoreCall[]): StoreCall[] {
  const counts = new Map<string, number>()
  const turns = calls.map((call) => {
    const account = call.events[0]?.accountId ?? ''
    const turn = counts.get(account) ?? 0
    counts.set(account, turn + 1)
    return { call, turn }
  })
  return turns.sort((a, b) => a.turn - b.turn).map(({ call }) => call)
}

/** Stores the first of these events, each with all its deliveries. @returns how many, and how many were new. */
async function storeEvents(
  database: Database,
  events: readonly CrmEvent[],
): Promise<{ first: number; inserted: Map<string, number> }> {
  const { first, inserted } = await database.transaction(async (tx) => {
    const targets = await targetsOf(tx, events, 'webhook')
    const users = usersOf(targets)
    const first = firstOf(events, users)
    // Drop events of an account that no user has connected. The server still acknowledges them. An event that no ticked
    // rule is about stays: whoever ticks one later hears of later changes alone, also from a search.
    const connected = new Set(targets.map(({ crm, account }) => `${crm}/${account}`))
    const kept = first.filter((event) => connected.has(accountOf(event)))
    if (kept.length === 0) return { first, inserted: new Map<string, number>() }
    const accounts = new Set(kept.map(accountOf))
    const ofKept = targets.filter(({ crm, account }) => accounts.has(`${crm}/${account}`))
    const inserted = await insertEvents(tx, kept, ofKept, 'webhook')
    failpoint('in transaction')
    return { first, inserted }
  })
  eventsStored.inc({ found_by: 'webhook' }, sumOf(inserted))
  return { first: first.length, inserted }
}
