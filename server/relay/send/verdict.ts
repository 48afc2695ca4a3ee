// Gets a candidate. Reads its deal, decides, and returns what a message says of the change, or why no message is needed.
// It stores nothing.

import type { ChangeReader, ReadBy } from '../decide/change.ts'
import { decide } from '../decide/rules.ts'
import type { DealDelivery, Shown } from '../pick/delivery.ts'
import { entryOf, type MessageEntry } from '../write/message.ts'
import { shownOfChange, shownOfEntry, shownOfValue } from '../write/shown.ts'
import type { Candidates, Skipped } from './candidates.ts'

/** A delivery that needs a message, and what the message says of it. */
export interface Told {
  delivery: DealDelivery
  entry: MessageEntry
}

type Verdict =
  | ({ kind: 'tell' } & Told)
  | ({ kind: 'skip' } & Skipped)
  | { kind: 'look again'; delivery: DealDelivery; afterMs: number }

/**
 * Decides about the first candidate. The same calls read the deals of those after it.
 * @throws ProviderError
 */
export async function verdictOf(
  candidates: Candidates,
  { changes, by }: { changes: Pick<ChangeReader, 'changeOf' | 'lookAgainAt'>; by: ReadBy },
): Promise<Verdict> {
  const [{ delivery, stage }] = candidates
  const nowMs = performance.now()
  const skip = (reason: string, shown: Shown): Verdict => ({
    kind: 'skip',
    delivery: { ...delivery, shown },
    reason,
  })
  const change = await changes.changeOf(candidates, by, nowMs)
  if (change === undefined) return skip('no_such_deal', shownOfValue({ ...delivery, stage }))
  const afterMs = changes.lookAgainAt(delivery) - nowMs
  const mayLookAgain = afterMs > 0
  const decision = decide(change, new Set(delivery.ruleIds), { mayLookAgain })
  if (decision.kind === 'look again') return { kind: 'look again', delivery, afterMs }
  if (decision.kind === 'nothing') return skip('no_rule', shownOfChange(change))
  const entry = entryOf(change, decision, { occurredAt: delivery.occurredAt, atMs: Date.now() })
  return { kind: 'tell', delivery: { ...delivery, shown: shownOfEntry(entry) }, entry }
}
