// Gets a delivery. Decides about it, and for a digest about those of its user after it, in their order. Ends those that
// need no message, page by page, and returns those that the next message tells. So the relay reads no deal that no rule
// needs, one call to the CRM reads many that are needed, and a long backlog neither fills the memory nor holds the thread.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Database } from '../../database/open.ts'
import type { Providers } from '../../providers/provider.ts'
import type { Candidate, ChangeReader, ReadBy } from '../decide/change.ts'
import { decide } from '../decide/rules.ts'
import type { DealDelivery, Delivery, Shown } from '../pick/delivery.ts'
import { type DeliveryPage, nextPage } from '../pick/following.ts'
import { mostInDigest } from '../write/digest.ts'
import { entryOf, type MessageEntry } from '../write/message.ts'
import { shownOfChange, shownOfEntry, shownOfValue } from '../write/shown.ts'
import type { Ends } from './end.ts'

/** So many candidates fill the calls to the CRM. */
const enoughCandidates = 150
/** After so many pages, a message goes out, or other channels have their turn. */
const mostPages = 5

/** A delivery that needs a message, and what the message says of it. */
export interface Told {
  delivery: DealDelivery
  entry: MessageEntry
}

export interface Decided {
  told: readonly Told[]
  /** One that must wait, and with it all after it. All before it can be sent. */
  mustWait?: { delivery: DealDelivery } & ({ afterMs: number } | { error: unknown })
  /** Whether this process still has the lease of the channel. */
  isLeased: boolean
}

interface Skipped {
  delivery: Delivery
  reason: string
}

/** Creates the function that decides what the next message tells. It throws only if the database fails. */
export function createTell({
  database,
  providers,
  changes,
  ends,
}: {
  database: Database
  providers: Providers
  changes: ChangeReader
  ends: Pick<Ends, 'end'>
}) {
  /** @returns whether this process still has the lease of the channel. */
  async function endSkipped(skipped: readonly Skipped[]): Promise<boolean> {
    for (const [reason, some] of Map.groupBy(skipped, (each) => each.reason)) {
      const ended = some.map(({ delivery }) => delivery)
      if ((await ends.end(ended, 'ignored', reason)).kind === 'done') return false
    }
    return true
  }

  return async function tellNext(
    first: DealDelivery,
    by: ReadBy,
    { isDigest }: { isDigest: boolean },
  ): Promise<Decided> {
    /** No rule needs its deal, or there is no such deal. One that is hidden from the user shows nothing in the list. */
    function unread({ delivery, stage }: Candidate): Skipped {
      const mayBeHidden = providers[by.crm.provider].readsAs === 'user'
      return {
        delivery: mayBeHidden
          ? delivery
          : { ...delivery, shown: shownOfValue({ ...delivery, stage }) },
        reason: 'no_rule',
      }
    }

    const candidates: Candidate[] = []
    let mustWait: Decided['mustWait']
    let page: DeliveryPage = { deliveries: [first], last: undefined }
    if (isDigest) page = await nextPage(database, first, undefined)
    for (let pages = 1; ; pages++) {
      let found: readonly Candidate[]
      try {
        found = await changes.candidatesOf(page.deliveries, by)
      } catch (error) {
        mustWait = { delivery: page.deliveries[0] ?? first, error }
        break
      }
      candidates.push(...found.filter(({ possible }) => possible.length > 0))
      const needless = found.filter(({ possible }) => possible.length === 0)
      if (!(await endSkipped(needless.map(unread)))) return { told: [], isLeased: false }
      const isEnough = candidates.length >= enoughCandidates || pages === mostPages
      if (page.last === undefined || isEnough) break
      await nextTurn()
      page = await nextPage(database, first, page.last)
    }

    const told: Told[] = []
    const skipped: Skipped[] = []
    for (const [at, candidate] of candidates.entries()) {
      const { delivery } = candidate
      try {
        // The same calls read the deals of those after it.
        const verdict = await verdictOf([candidate, ...candidates.slice(at + 1)])
        if ('afterMs' in verdict) {
          mustWait = { delivery, ...verdict }
          break
        }
        if ('entry' in verdict) told.push(verdict)
        else skipped.push(verdict)
      } catch (error) {
        mustWait = { delivery, error }
        break
      }
      if (told.length === mostInDigest) break
    }
    const isLeased = await endSkipped(skipped)
    return { told, isLeased, ...(mustWait && { mustWait }) }

    /** Reads the first deal and decides. @throws ProviderError */
    async function verdictOf(
      some: readonly [Candidate, ...Candidate[]],
    ): Promise<Told | Skipped | { afterMs: number }> {
      const [candidate] = some
      const { delivery } = candidate
      const nowMs = performance.now()
      const change = await changes.changeOf(some, by, nowMs)
      if (change === undefined) return { ...unread(candidate), reason: 'no_such_deal' }
      const afterMs = changes.lookAgainAt(delivery) - nowMs
      const decision = decide(change, new Set(delivery.ruleIds), { mayLookAgain: afterMs > 0 })
      if (decision.kind === 'look again') return { afterMs }
      const withShown = (shown: Shown) => ({ ...delivery, shown })
      if (decision.kind === 'nothing') {
        return { delivery: withShown(shownOfChange(change)), reason: 'no_rule' }
      }
      const entry = entryOf(change, decision, { occurredAt: delivery.occurredAt, atMs: Date.now() })
      return { delivery: withShown(shownOfEntry(entry)), entry }
    }
  }
}
