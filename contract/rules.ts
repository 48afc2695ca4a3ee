/** A kind of CRM event that can cause a chat message (§3). */
export interface Rule {
  id: string
  /** The label of the checkbox, after 'Notify me when '. */
  when: string
}

export interface RuleCategory {
  name: string
  /** If false, the rules are shown as coming soon and cannot be ticked. */
  available: boolean
  rules: readonly Rule[]
}

export const ruleCatalogue = [
  {
    name: 'Deals',
    available: true,
    rules: [
      { id: 'deal-stage-changed', when: 'a deal stage changes' },
      { id: 'deal-closed', when: 'a deal is signed or closed (won/lost)' },
      {
        id: 'deal-stage-changed-orphan',
        when: 'a deal moves stage without a contact or company associated',
      },
    ],
  },
  {
    name: 'Contacts',
    available: false,
    rules: [
      {
        id: 'contact-added-to-high-value-deal',
        when: 'a contact is added to a high-value deal',
      },
      {
        id: 'contact-decision-maker-added',
        when: 'a decision maker is added as a contact',
      },
      {
        id: 'contact-unsubscribed-all',
        when: 'a contact unsubscribes from all communication',
      },
    ],
  },
  {
    name: 'Companies',
    available: false,
    rules: [
      {
        id: 'company-created-without-contacts',
        when: 'a company is created without any contacts',
      },
      { id: 'company-became-customer', when: 'a company becomes a customer' },
      {
        id: 'company-marked-target-account',
        when: 'a company is marked as a target account',
      },
    ],
  },
  {
    name: 'Invoices',
    available: false,
    rules: [
      { id: 'invoice-created', when: 'an invoice is created' },
      { id: 'invoice-paid', when: 'an invoice is paid' },
      { id: 'invoice-overdue', when: 'an invoice becomes overdue' },
      {
        id: 'invoice-high-value',
        when: 'an invoice of a high value is created',
      },
    ],
  },
  {
    name: 'Custom',
    available: false,
    rules: [{ id: 'custom-rule', when: 'a rule of my own is met' }],
  },
] as const satisfies readonly RuleCategory[]

/**
 * The id of a rule that a user can tick now. If the relay has no entry for one of these ids
 * (server/relay/decide/rules.ts), the project does not compile.
 */
export type AvailableRuleId = Extract<
  (typeof ruleCatalogue)[number],
  { available: true }
>['rules'][number]['id']

/** The ids that a user can tick now (§5). A save also keeps the other ids that are stored. */
export const availableRuleIds: ReadonlySet<string> = new Set(
  ruleCatalogue
    .filter((category) => category.available)
    .flatMap((category) => category.rules.map((rule) => rule.id)),
)
