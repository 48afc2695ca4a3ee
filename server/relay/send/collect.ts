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

/** A delivery that needs no message. */
interface Skipped {
  delivery: Delivery
  reason: string
}

interface Collected {
  /** What the message may cover, in its order. */
  told: Told[]
  skipped: Skipped[]
  /** A delivery that must wait, and with it all after it. All before it can be sent or ended. */
  held: Held | undefined
}

export type Held = { delivery: DealDelivery } & (
  | { kind: 'look again'; afterMs: number }
  | { kind: 'failed'; error: unknown }
)

type Page = ReadonlyArray<DealDelivery & UpcomingDelivery>
type Candidates = readonly [Candidate, ...Candidate[]]
type CandidatesOf = (deliveries: readonly DealDelivery[]) => Promise<Candidate[]>

/** The only page of a message about one delivery. */
export async function* singlePage(first: DealDelivery): AsyncGenerator<Page, void> {
  yield [{ ...first, alreadyReported: null }]
}

/** Finds the deliveries from `first` on that one digest may cover, page by page. */
export async function* digestPages(
  database: Database,
  first: DealDelivery,
  {
    mayDigest,
    isStopping,
  }: { mayDigest: (delivery: Delivery) => boolean; isStopping: () => boolean },
): AsyncGenerator<Page, void> {
  if (isStopping()) return
  for await (const page of deliveriesFrom(database, first)) {
    const end = page.findIndex(
      (each) => each.alreadyReported === null && (!isOfDeal(each) || !mayDigest(each)),
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
  pages: AsyncIterable<Page>,
  {
    candidatesOf,
    verdictOn,
  }: {
    candidatesOf: CandidatesOf
    /** Decides about the first candidate. The same calls to the CRM read the deals of the others. */
    verdictOn: (candidates: Candidates) => Promise<Verdict>
  },
): Promise<Collected> {
  const told: Told[] = []
  const skipped: Skipped[] = []
  let delivery = first
  try {
    for await (const candidates of candidatesIn(pages, candidatesOf, skipped)) {
      delivery = candidates[0].delivery
      const verdict = await verdictOn(candidates)
      if (verdict.kind === 'look again') return { told, skipped, held: { delivery, ...verdict } }
      if (verdict.kind === 'skip') {
        const { reason, shown } = verdict
        skipped.push({ delivery: { ...delivery, shown }, reason })
        continue
      }
      const { entry } = verdict
      told.push({ delivery: { ...delivery, shown: shownOfEntry(entry) }, entry })
      if (told.length === mostInDigest) break
    }
  } catch (error) {
    return { told, skipped, held: { delivery, kind: 'failed', error } }
  }
  return { told, skipped, held: undefined }
}

/** Yields each delivery to which a ticked rule may apply, with those after it. Adds the others to `skipped`. */
async function* candidatesIn(
  pages: AsyncIterable<Page>,
  candidatesOf: CandidatesOf,
  skipped: Skipped[],
): AsyncGenerator<Candidates, void> {
  const queue: Candidate[] = []
  for await (const page of pages) {
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
    yield* takeUntil(queue, lookedAhead - 1)
  }
  yield* takeUntil(queue, 0)
}

/** Takes the first candidates one by one, until only `left` are left. */
function* takeUntil(queue: Candidate[], left: number): Generator<Candidates, void> {
  while (queue.length > left) {
    const [first, ...others] = queue
    if (first !== undefined) yield [first, ...others]
    queue.shift()
  }
}
