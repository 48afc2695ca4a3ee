// Gets a change of a deal, and the rules that its user ticked. Returns the decision: the rule under which to send the
// change and the headline of its message, or to look again later, or that no message is needed. Everything here is a
// pure function: the same arguments always give the same decision, in the relay and in a preview (activity/).

import type { AvailableRuleId } from '../../../contract/rules.ts'
import type { CrmDeal, Stage } from '../../providers/deal.ts'
import type { DealProperty } from '../../providers/registry.ts'

export interface Change {
  property: DealProperty
  /**
   * The old value. Null: the deal was created with the new one. Undefined: the old one is unknown.
   */
  from: string | null | undefined
  to: string
  deal: CrmDeal
  /** Returns the stage with this id. A deleted stage counts as open, and its label is its id. */
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
  /** The heading of such changes in a digest: 'Moved to Proposal'. By default, `happened`. */
  title?: string
  /** What a digest counts the deal as: ['moved', 'won']. By default, `happened`. */
  counts?: readonly string[]
}

/** What the relay knows about one rule. contract/rules.ts contains the text for users. */
interface DealRule {
  property: DealProperty
  applies(change: Change): boolean
  /**
   * Set if the new value alone decides whether the rule applies. If no ticked rule applies, the relay
   * then need not read the deal.
   */
  appliesTo?(value: string, stage: Change['stage']): boolean
  /** Set if a deal that was created with the value does not meet it. Then the relay need not read a new deal, either. */
  needsFormer?: true
  /**
   * The rule depends on the deal's contacts and companies. The CRM may add them some seconds after the deal. So for
   * some seconds after the event arrived, the relay sends no message under this rule, but looks again.
   */
  readsLinks?: true
  headline(change: Change): Headline
}

/**
 * One entry for each rule that the dashboard offers. If one is missing, this does not compile. If several rules apply
 * to a change, the relay sends one message, under the first of them in this list.
 */
export const dealRules: Readonly<Record<AvailableRuleId, DealRule>> = {
  'deal-closed': {
    property: 'stage',
    // Also true for a deal that was created closed.
    applies: ({ to, stage }) => isClosed(to, stage),
    appliesTo: isClosed,
    headline: stageHeadline,
  },
  'deal-stage-changed-orphan': {
    property: 'stage',
    needsFormer: true,
    applies: ({ deal }) => deal.linked === false,
    readsLinks: true,
    headline: (change) => ({
      ...stageHeadline(change),
      remark: 'No contact or company on this deal',
    }),
  },
  'deal-stage-changed': {
    property: 'stage',
    // A deal that was created in a stage has not changed it. An unknown former stage counts as another one.
    needsFormer: true,
    applies: () => true,
    headline: stageHeadline,
  },
}

/** The properties of all rules. The server does not store events of other properties. */
export const watchedProperties: ReadonlySet<DealProperty> = new Set(
  Object.values(dealRules).map(({ property }) => property),
)

/** The properties that ticked rules are about. */
export function propertiesOf(ruleIds: readonly string[]): DealProperty[] {
  const some = ruleEntries.filter(([id]) => ruleIds.includes(id))
  return [...new Set(some.map(([, { property }]) => property))]
}

export type RuleEntry = readonly [AvailableRuleId, DealRule]

/** Those that may apply to a change, whatever its deal, in the order of `dealRules`. */
export function possibleRules(
  { property, from, to, stage }: Omit<Change, 'deal'>,
  ticked: ReadonlySet<string>,
): RuleEntry[] {
  return ruleEntries
    .filter(([id, rule]) => ticked.has(id) && rule.property === property)
    .filter(([, { needsFormer }]) => !needsFormer || from !== null)
    .filter(([, { appliesTo }]) => appliesTo === undefined || appliesTo(to, stage))
}

/** Whether the decision among these rules may depend on the deal's contacts and companies. */
export function mayNeedLinks(possible: readonly RuleEntry[]): boolean {
  const isCertain = possible[0]?.[1].appliesTo !== undefined
  return !isCertain && possible.some(([, { readsLinks }]) => readsLinks)
}

/** Whether the decision depends on the deal's contacts and companies, which `change` does not have. */
export function needsLinks(change: Change, ticked: ReadonlySet<string>): boolean {
  const unlinked = { ...change, deal: { ...change.deal, linked: false } }
  return ruleFor(unlinked, ticked, { mayLookAgain: true }).kind === 'look again'
}

type RuleChoice =
  | { kind: 'send'; ruleId: AvailableRuleId }
  /** The CRM may still add a contact or a company to the deal. */
  | { kind: 'look again' }
  | { kind: 'nothing' }

export type Decision =
  | { kind: 'send'; ruleId: AvailableRuleId; headline: Headline }
  | Exclude<RuleChoice, { kind: 'send' }>

/** Decides under which ticked rule to send a change, and what the message says first. Reads nothing. */
export function decide(
  change: Change,
  ticked: ReadonlySet<string>,
  options: { mayLookAgain: boolean },
): Decision {
  const choice = ruleFor(change, ticked, options)
  if (choice.kind !== 'send') return choice
  return { ...choice, headline: dealRules[choice.ruleId].headline(change) }
}

export function ruleFor(
  change: Change,
  ticked: ReadonlySet<string>,
  { mayLookAgain }: { mayLookAgain: boolean },
): RuleChoice {
  if (change.from === change.to) return { kind: 'nothing' }
  const first = possibleRules(change, ticked).find(([, rule]) => rule.applies(change))
  if (first === undefined) return { kind: 'nothing' }
  const [ruleId, rule] = first
  return rule.readsLinks && mayLookAgain ? { kind: 'look again' } : { kind: 'send', ruleId }
}

// The type of Object.entries does not keep the names of the keys.
const ruleEntries = Object.entries(dealRules) as RuleEntry[]

function stageHeadline({ from, to, stage }: Change): Headline {
  const { label, outcome } = stage(to)
  const happened = {
    won: 'was won',
    lost: 'was lost',
    closed: 'was closed',
    open: `moved to ${label}`,
  }[outcome]
  const sign = { won: '🎉', lost: '📉', closed: '🏁', open: '🔔' }[outcome]
  const title = { won: 'Won', lost: 'Lost', closed: 'Closed', open: `Moved to ${label}` }[outcome]
  const counts = [...(from === null ? [] : ['moved']), ...(outcome === 'open' ? [] : [outcome])]
  return { sign, happened, from: from ? stage(from).label : undefined, to: label, title, counts }
}

function isClosed(value: string, stage: Change['stage']): boolean {
  return stage(value).outcome !== 'open'
}
