/** Anyone can create deals, so the oldest make room for new ones. */
const maxDeals = 500
const maxChanges = 50
const maxMerged = 1_000

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
  /** The ids of merged deals, the oldest first, and of the deals that they became. */
  readonly #merged = new Map<string, string>()
  readonly #indexLagMs: number
  #nextId = 9_001

  constructor(indexLagMs: number) {
    this.#indexLagMs = indexLagMs
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
    return this.#store({ ...deal, history })
  }

  #store(deal: Omit<StandInDeal, 'id'>): StandInDeal {
    const stored = { ...deal, id: String(this.#nextId++) }
    this.#deals.set(stored.id, stored)
    forgetOldest(this.#deals, maxDeals)
    return stored
  }

  /** Replaces two deals by a new one, as HubSpot does: with the first one's values, and both histories. */
  merge(primary: StandInDeal, other: StandInDeal): StandInDeal {
    // Sorting keeps the order of equal times. So the first one's values are the last ones.
    const history = [...other.history, ...primary.history].sort((a, b) => a.at - b.at)
    const merged = this.#store({
      ...primary,
      contact: primary.contact || other.contact,
      company: primary.company || other.company,
      history,
    })
    for (const { id } of [primary, other]) {
      this.#deals.delete(id)
      for (const [old, became] of this.#merged) if (became === id) this.#merged.set(old, merged.id)
      this.#merged.set(id, merged.id)
    }
    forgetOldest(this.#merged, maxMerged)
    return merged
  }

  /** The deal with this id, or what it became in a merge. */
  find(id: string): StandInDeal | undefined {
    return this.#deals.get(this.#merged.get(id) ?? id)
  }

  /** The ids of the deals that were merged into the one with this id. */
  formerIds(id: string): string[] {
    return [...this.#merged].flatMap(([old, became]) => (became === id ? [old] : []))
  }

  /** The deal that has this id now. */
  get(id: string): StandInDeal | undefined {
    return this.#deals.get(id)
  }

  all(): StandInDeal[] {
    return [...this.#deals.values()]
  }

  /** The deals as the search index knows them: it learns of changes later. */
  indexed(): StandInDeal[] {
    const until = Date.now() - this.#indexLagMs
    return this.all()
      .map((deal) => ({ ...deal, history: deal.history.filter(({ at }) => at <= until) }))
      .filter(({ history }) => history.length > 0)
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

function forgetOldest(map: Map<string, unknown>, most: number): void {
  for (const oldest of map.keys()) {
    if (map.size <= most) break
    map.delete(oldest)
  }
}

/** The value that a property has now; empty if it has none. */
export const currentOf = ({ history }: StandInDeal, property: Change['property']) =>
  history.findLast((change) => change.property === property)?.value ?? ''

export const changedAt = ({ history }: StandInDeal) => history.at(-1)?.at ?? 0
