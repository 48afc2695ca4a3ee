// Gets deliveries, such as those that the next message may cover. Returns those to which a ticked rule may apply, and
// names the others. So the relay reads no deal that no rule needs, and one call to the CRM reads many that are needed.

import type { Candidate, ChangeReader, ReadBy } from '../decide/change.ts'
import type { Delivery } from '../pick/delivery.ts'
import type { Page } from '../pick/following.ts'
import { shownOfValue } from '../write/shown.ts'

/** How many candidates are known ahead, if there are as many, so that the calls to the CRM are full. */
const lookedAhead = 150

export type Candidates = readonly [Candidate, ...Candidate[]]

/** A delivery that needs no message, with what the user's list shows of it. */
export interface Skipped {
  delivery: Delivery
  reason: string
}

/**
 * Yields each candidate in their order, with those after it: the calls that read its deal also read theirs. Calls `skip`
 * for each other delivery, as soon as it knows it. @throws ProviderError
 */
export async function* eachCandidate(
  pages: AsyncIterable<Page>,
  {
    changes,
    by,
    skip,
  }: {
    changes: Pick<ChangeReader, 'candidatesOf'>
    by: ReadBy
    /** A delivery needs no message. */
    skip: (skipped: Skipped) => void
  },
): AsyncGenerator<Candidates, void> {
  const queue: Candidate[] = []
  for await (const page of pages) {
    for (const candidate of await changes.candidatesOf(page, by)) {
      const { delivery, possible, stage } = candidate
      if (possible.length > 0) queue.push(candidate)
      else {
        const shown = shownOfValue({ ...delivery, stage })
        skip({ delivery: { ...delivery, shown }, reason: 'no_rule' })
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
