import type { DealProperty } from './registry.ts'

/** A property of a deal that got a new value, as a webhook reports it. */
export interface DealEvent {
  /**
   * The same for all copies of one webhook's event. A search gives the same change another key
   * (relay/receive/store.ts).
   */
  key: string
  accountId: string
  dealId: string
  property: DealProperty
  /** The new value; an id for a stage or an owner. */
  value: string
  /** The old value. Null: the deal was created with the new one. Undefined: the deal's history must tell it. */
  former?: string | null | undefined
  occurredAt: Date
}

/** What to read of a deal besides its name, amount, owner and close date. */
export interface DealFields {
  /** The property of which the past values are needed. Undefined: none, which may cost less. */
  history: DealProperty | undefined
  links: boolean
}

export interface CrmDeal {
  /**
   * The deal's current id. If the deal was merged, it differs from the requested id. Links exist only under the
   * current id.
   */
  id: string
  url: string
  name: string | null
  /** A decimal number as text. */
  amount: string | null
  /** The currency of the deal, or else the currency of the account. Null if neither is known. */
  currency: string | null
  ownerId: string | null
  /** When the deal was closed, or is expected to be. Undefined if the CRM has no such date. */
  closeDate?: Date | undefined
  /** Whether the deal has a contact or a company. Undefined if this was not asked. */
  linked: boolean | undefined
  /**
   * The values of the requested property, the oldest first. The CRM may leave out the oldest ones.
   */
  history: ReadonlyArray<{ value: string; at: Date }>
}

/** A stage as the CRM describes it. Do not rely on id or label: users rename and reorder stages. */
export interface Stage {
  id: string
  label: string
  outcome: 'open' | 'won' | 'lost' | 'closed'
  /** The label of the stage's pipeline, if the account has several. */
  pipeline?: string | undefined
}

/** The owner of deals: a person, or a team. The relay keeps this only in memory. */
export interface CrmOwner {
  name: string
  /** Undefined if the CRM has none. */
  email: string | undefined
}

export interface ChangedDeals {
  ids: string[]
  /** The time of the answer by the CRM's clock. The times of the changes use the same clock. Our clock may differ. */
  at: Date
  /** Until when this answer contains every change. To read on, ask again from this time. */
  until: Date
  /** False if there are further changes after `until`. */
  complete: boolean
  /**
   * The deals themselves by their ids, if the answer has them. The history of each has only the last change of its stage,
   * after an empty value if the deal was not created with it. So only deals whose last change is news must be read. Missing if the answer has only ids.
   */
  deals?: ReadonlyMap<string, CrmDeal> | undefined
}
