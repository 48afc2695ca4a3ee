import type { Database } from '../../database/open.ts'
import type { Candidate } from '../decide/change.ts'
import { type DealDelivery, type Delivery, isOfDeal, type Shown } from '../pick/delivery.ts'
import { deliveriesFrom, type UpcomingDelivery } from '../pick/following.ts'
import type { MessageEntry } from '../write/message.ts'
import { shownOfEntry, shownOfValue } from '../write/shown.ts'

/** The most events in one digest. */
const mostInDigest = 30
/** How many deliveries a digest looks at, if there are as many, so that the calls to the CRM are full. */
const lookedAhead = 150

/** What becomes of one delivery. */
export type Verdict =
  | { kind: 'tell'; entry: MessageEntry }
  | { kind: 'skip'; reason: 'no_rule' | 'no_such_deal'; shown: Shown }
  | { kind: 'look again'; afterMs: number }

/** A delivery that needs a message, and what the message says of it. */
export interface Told {
  delivery: DealDelivery
  entry: MessageEntry
}

interface Collected {
  /** What the message may cover, in its order. */
  told: Told[]
  /** What needs no message, and why. */
  skipped: Array<{ delivery: Delivery; reason: string }>
  /** A delivery that must wait, and with it all after it. All before it can be sent or ended. */
  held: Held | undefined
}

export type Held = { delivery: DealDelivery } & (
  | { kind: 'look again'; afterMs: number }
  | { kind: 'failed'; error: unknown }
)

type Page = ReadonlyArray<DealDelivery & UpcomingDelivery>

/** The only page of a message about one delivery. */
export async function* singlePage(first: DealDelivery): AsyncGenerator<Page, void> {
  yield [{ ...first, alreadyReported: null }]
}

/** Finds the deliveries from `first` on that one digest may cover, page by page. */
export async function* digestPages(
  database: Database,
  first: DealDelivery,
  { onlySingle, isStopping }: { onlySingle: ReadonlySet<number>; isStopping: () => boolean },
): AsyncGenerator<Page, void> {
  if (isStopping()) return
  for await (const page of deliveriesFrom(database, first)) {
    const end = page.findIndex(
      (each) => each.alreadyReported === null && (!isOfDeal(each) || onlySingle.has(each.id)),
    )
    yield (end === -1 ? page : page.slice(0, end)).filter(isOfDeal)
    if (end !== -1 || isStopping()) return
  }
}

/**
 * Collects what the next message covers. Looks at the deliveries in their order, until the message is full, a
 * delivery must wait, or there are no more.
 */
export async function collect(
  first: DealDelivery,
  pages: AsyncIterator<Page, void>,
  {
    candidatesOf,
    verdictOn,
  }: {
    candidatesOf: (deliveries: readonly DealDelivery[]) => Promise<Candidate[]>
    /** Decides about the first candidate. The same calls to the CRM read the deals of the others. */
    verdictOn: (candidates: readonly [Candidate, ...Candidate[]]) => Promise<Verdict>
  },
): Promise<Collected> {
  const told: Told[] = []
  const skipped: Collected['skipped'] = []
  const queue: Candidate[] = []
  let more = true
  let held: Held | undefined

  async function lookAhead(): Promise<void> {
    while (more && queue.length < lookedAhead) {
      const { value: page, done } = await pages.next()
      if (done) {
        more = false
        return
      }
      const candidates = await candidatesOf(page.filter((each) => each.alreadyReported === null))
      for (const { alreadyReported: shown, ...delivery } of page) {
        if (shown !== null) {
          skipped.push({ delivery: { ...delivery, shown }, reason: 'said_in_channel' })
        }
      }
      for (const candidate of candidates) {
        const { delivery, possible, stage } = candidate
        if (possible.length > 0) queue.push(candidate)
        else {
          const shown = shownOfValue({ ...delivery, stage })
          skipped.push({ delivery: { ...delivery, shown }, reason: 'no_rule' })
        }
      }
    }
  }

  while (told.length < mostInDigest && held === undefined) {
    try {
      await lookAhead()
      const [candidate, ...others] = queue
      if (candidate === undefined) break
      const { delivery } = candidate
      const verdict = await verdictOn([candidate, ...others])
      if (verdict.kind === 'tell') {
        const { entry } = verdict
        told.push({ delivery: { ...delivery, shown: shownOfEntry(entry) }, entry })
      } else if (verdict.kind === 'skip') {
        const { reason, shown } = verdict
        skipped.push({ delivery: { ...delivery, shown }, reason })
      } else held = { delivery, ...verdict }
      queue.shift()
    } catch (error) {
      held = { delivery: queue[0]?.delivery ?? first, kind: 'failed', error }
    }
  }
  return { told, skipped, held }
}
