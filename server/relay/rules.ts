import type { AvailableRuleId } from '../../contract/rules.ts'
import type { CrmDeal, Stage } from '../providers/provider.ts'
import type { DealProperty } from '../providers/registry.ts'

/** A change of one deal property, as the rules see it. */
export interface Change {
  property: DealProperty
  /** The old value. Null: the deal was created with the new one. Undefined: the history does not say. */
  from: string | null | undefined
  to: string
  deal: CrmDeal
  /** The stage with this id. A stage that no pipeline has any more is open, and its label is its id. */
  stage(id: string): Stage
}

/** What a message says about a change, as plain text. */
export interface Headline {
  sign: string
  /** Follows the deal's name: 'was won', 'moved to Proposal'. */
  happened: string
  from?: string | undefined
  to: string
  remark?: string
}

/** What the relay knows about one rule. Its wording for people is in contract/rules.ts. */
interface DealRule {
  /** The rule is about changes of this property. */
  property: DealProperty
  /** One message is sent for a change, under the rule with the highest rank of those that apply. */
  rank: number
  applies(change: Change): boolean
  /**
   * The rule depends on the deal's contacts and companies. They follow a new deal by seconds, so the
   * relay reads the deal a second time before it sends a message under this rule.
   */
  readsLinks?: true
  headline(change: Change): Headline
}

/** One entry for each rule that the dashboard offers. Without its entry a rule does not compile. */
export const dealRules: Readonly<Record<AvailableRuleId, DealRule>> = {
  'deal-closed': {
    property: 'stage',
    rank: 3,
    // Also true for a deal that was created closed.
    applies: ({ to, stage }) => stage(to).outcome !== 'open',
    headline: stageHeadline,
  },
  'deal-stage-changed-orphan': {
    property: 'stage',
    rank: 2,
    applies: ({ from, deal }) => from !== null && !deal.linked,
    readsLinks: true,
    headline: (change) => ({
      ...stageHeadline(change),
      remark: 'No contact or company on this deal',
    }),
  },
  'deal-stage-changed': {
    property: 'stage',
    rank: 1,
    // A deal that was created in a stage has not changed it.
    applies: ({ from }) => from !== null,
    headline: stageHeadline,
  },
}

/** The properties that some rule is about. Events of other properties are not stored. */
export const watchedProperties: ReadonlySet<DealProperty> = new Set(
  Object.values(dealRules).map(({ property }) => property),
)

export type Decision =
  | { kind: 'send'; ruleId: AvailableRuleId }
  | { kind: 'look again' }
  | { kind: 'nothing' }

/** Decides under which of the user's ticked rules a change is sent. */
export function decide(
  change: Change,
  ticked: ReadonlySet<string>,
  { mayLookAgain }: { mayLookAgain: boolean },
): Decision {
  if (change.from === change.to) return { kind: 'nothing' }
  const [found] = ruleEntries
    .filter(([id, { property }]) => ticked.has(id) && property === change.property)
    .filter(([, rule]) => rule.applies(change))
    .sort(([, a], [, b]) => b.rank - a.rank)
  if (found === undefined) return { kind: 'nothing' }
  const [ruleId, rule] = found
  return rule.readsLinks && mayLookAgain ? { kind: 'look again' } : { kind: 'send', ruleId }
}

// Object.entries forgets the names of the keys.
const ruleEntries = Object.entries(dealRules) as Array<[AvailableRuleId, DealRule]>

function stageHeadline({ from, to, stage }: Change): Headline {
  const { label, outcome } = stage(to)
  const happened = {
    won: 'was won',
    lost: 'was lost',
    closed: 'was closed',
    open: `moved to ${label}`,
  }[outcome]
  const sign = { won: '🎉', lost: '📉', closed: '🏁', open: '🔔' }[outcome]
  return { sign, happened, from: from ? stage(from).label : undefined, to: label }
}
