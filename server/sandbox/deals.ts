/** Anyone can create deals, so the oldest make room for new ones. */
const maxDeals = 500
const maxChanges = 50

export interface StandInDeal {
  id: string
  name: string
  ownerId: string | null
  contact: boolean
  company: boolean
  /** The changes of stage and amount, the oldest first. */
  history: Change[]
}

export interface Change {
  /** HubSpot's name of the property. */
  property: 'dealstage' | 'amount'
  value: string
  /** Milliseconds since 1970. */
  at: number
}

/** The deals of the stand-in HubSpot. They are lost when the server stops. */
export class StandInDeals {
  /** The oldest first. */
  readonly #deals = new Map<string, StandInDeal>()
  #nextId = 9_001

  constructor() {
    const at = Date.now() - 86_400_000
    // The owners: one who is there, one who is archived, one who is missing, and none.
    for (const [name, amount, contact, company, ownerId] of [
      ['Acme renewal', '12500', true, true, '4001'],
      ['Globex pilot', '4800', true, false, '4002'],
      ['Initech expansion', '73000.5', false, true, '4003'],
      ['Umbrella onboarding', '', false, false, null],
    ] as const) {
      this.add({ name, ownerId, contact, company, stage: 'appointmentscheduled', amount, at })
    }
  }

  add({
    stage,
    amount,
    at,
    ...deal
  }: Omit<StandInDeal, 'id' | 'history'> & { stage: string; amount: string; at: number }) {
    const history: Change[] = [{ property: 'dealstage', value: stage, at }]
    if (amount !== '') history.push({ property: 'amount', value: amount, at })
    const created = { ...deal, id: String(this.#nextId++), history }
    this.#deals.set(created.id, created)
    const [oldest] = this.#deals.keys()
    if (oldest !== undefined && this.#deals.size > maxDeals) this.#deals.delete(oldest)
    return created
  }

  get(id: string): StandInDeal | undefined {
    return this.#deals.get(id)
  }

  all(): StandInDeal[] {
    return [...this.#deals.values()]
  }

  /** Changes a property. @returns undefined if it has this value already: then nothing changes. */
  enter(deal: StandInDeal, property: Change['property'], value: string): Change | undefined {
    if (currentOf(deal, property) === value) return undefined
    const change = { property, value, at: Date.now() }
    deal.history.push(change)
    const [oldest, ...others] = deal.history.filter((each) => each.property === property)
    if (oldest !== undefined && others.length >= maxChanges) {
      deal.history.splice(deal.history.indexOf(oldest), 1)
    }
    return change
  }
}

/** The value that a property has now; empty if it has none. */
export const currentOf = ({ history }: StandInDeal, property: Change['property']) =>
  history.findLast((change) => change.property === property)?.value ?? ''

export const changedAt = ({ history }: StandInDeal) => history.at(-1)?.at ?? 0
