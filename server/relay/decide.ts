import type { Stage } from '../providers/provider.ts'

export interface Move {
  /** Null when the deal was created in this stage; undefined when the history does not tell. */
  from: Stage | null | undefined
  to: Stage
  /** A contact or a company stands on the deal. */
  linked: boolean
}

export type Decision =
  | { kind: 'say'; ruleId: RuleId }
  // Links follow a new deal by seconds, so a deal without any is looked at again before it is said.
  | { kind: 'look again' }
  | { kind: 'nothing' }

export type RuleId = 'deal-closed' | 'deal-stage-changed-orphan' | 'deal-stage-changed'

/** The one rule that a move is said under: the most telling of those that the user ticked. */
export function decide(
  { from, to, linked }: Move,
  ticked: ReadonlySet<string>,
  { mayLookAgain }: { mayLookAgain: boolean },
): Decision {
  if (from?.id === to.id) return { kind: 'nothing' }

  if (ticked.has('deal-closed') && to.outcome !== 'open') {
    return { kind: 'say', ruleId: 'deal-closed' }
  }
  // A deal that was created in a stage has not changed it.
  if (from === null) return { kind: 'nothing' }

  if (ticked.has('deal-stage-changed-orphan') && !linked) {
    return mayLookAgain
      ? { kind: 'look again' }
      : { kind: 'say', ruleId: 'deal-stage-changed-orphan' }
  }
  return ticked.has('deal-stage-changed')
    ? { kind: 'say', ruleId: 'deal-stage-changed' }
    : { kind: 'nothing' }
}
