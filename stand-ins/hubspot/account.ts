import { firstDeals } from '../first-deals.ts'
import type { StandInOptions } from '../page.ts'
import { forgetOldest, type StandInTokens } from '../tokens.ts'

/** What the pages and the APIs of the stand-in HubSpot share. */
export interface HubspotAccount extends StandInOptions {
  /** The path of the page with the deals. */
  list: string
  tokens: StandInTokens
  deals: StandInDeals
}

/** The only account of the stand-in HubSpot, and the person who is signed in to it. */
export const standInHub = {
  hubId: 4_200_001,
  userId: 7_700_001,
  domain: 'acme-stand-in.example',
  user: 'sam@acme-stand-in.example',
  appId: 1_000_001,
  currency: 'EUR',
}

export const standInOwners = [
  {
    id: '4001',
    type: 'PERSON',
    firstName: 'Alex',
    lastName: 'Rivera',
    email: 'alex.rivera@stand-in.example',
    userId: standInHub.userId,
    archived: false,
  },
  // An owner who left has no user, and is answered only to those who ask for archived owners.
  {
    id: '4002',
    type: 'PERSON',
    firstName: 'Robin',
    lastName: 'Chen',
    email: 'robin.chen@stand-in.example',
    archived: true,
  },
]

export const standInPipelines = [
  {
    id: 'default',
    label: 'Sales pipeline',
    stages: [
      stage('appointmentscheduled', 'Appointment scheduled', '0.2', 'false'),
      stage('qualifiedtobuy', 'Qualified to buy', '0.4', 'false'),
      stage('presentationscheduled', 'Presentation scheduled', '0.6', 'false'),
      stage('contractsent', 'Contract sent', '0.9', 'false'),
      stage('closedwon', 'Closed won', '1.0', 'true'),
      stage('closedlost', 'Closed lost', '0.0', 'true'),
    ],
  },
  // The ids of what people create are numbers. Only the metadata say which stage means won.
  {
    id: '81200001',
    label: 'Renewals',
    stages: [
      stage('1200101', 'Renewal due', '0.5', 'false'),
      stage('1200102', 'Not renewed', '0.0', 'true'),
      stage('1200103', 'Renewed', '1.0', 'true'),
    ],
  },
]

function stage(id: string, label: string, probability: string, isClosed: string) {
  return { id, label, metadata: { probability, isClosed } }
}

/** How long a search does not find a change. */
const indexLagMs = 2_000
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
  #nextId = 9_001

  constructor() {
    const [stage = '', ...later] = standInPipelines[0]?.stages.map(({ id }) => id) ?? []
    // The owners: one who is there, one who is archived, one who is missing, and none.
    const owners = ['4001', '4002', '4003', null]
    for (const [n, { movedAt, createdAt, ...first }] of firstDeals(Date.now()).entries()) {
      const deal = this.add({ ...first, ownerId: owners[n] ?? null, stage, at: createdAt })
      for (const [n, at] of movedAt.entries()) {
        deal.history.push({ property: 'dealstage', value: later[n] ?? '', at })
      }
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
    const until = Date.now() - indexLagMs
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

/** The value that a property has now; empty if it has none. */
export const currentOf = ({ history }: StandInDeal, property: Change['property']) =>
  history.findLast((change) => change.property === property)?.value ?? ''

export const changedAt = ({ history }: StandInDeal) => history.at(-1)?.at ?? 0
