import { firstDeals } from '../first-deals.ts'
import type { StandInOptions } from '../page.ts'
import { forgetOldest, StandInTokens } from '../tokens.ts'

/** What the pages and the APIs of the stand-in Pipedrive share. */
export interface PipedriveCompany extends StandInOptions {
  /** What the API says of the company. */
  about: { company_id: number; company_name: string; company_domain: string }
  redirectUri: string
  /** The path of the page with the deals. */
  list: string
  users: readonly [StandInUser, ...StandInUser[]]
  deals: StandInDeals
  budget: DailyBudget
}

export const currency = 'EUR'

export interface StandInUser {
  id: number
  name: string
  email: string
  /** An admin sees all deals. Others see only their own, as with the visibility "owner only". */
  isAdmin: boolean
  /** The tokens of one user. So an uninstallation ends all of them, and no others. */
  tokens: StandInTokens
}

export function createUsers(secret: string): PipedriveCompany['users'] {
  const user = (id: number, name: string, email: string, isAdmin: boolean): StandInUser => ({
    id,
    name,
    email,
    isAdmin,
    tokens: new StandInTokens(`pipedrive-stand-in-${id}-`, `${secret}/${id}`),
  })
  return [
    user(6001, 'Ada Admin', 'ada@acme-stand-in.example', true),
    user(6002, 'Ben Berg', 'ben@acme-stand-in.example', false),
  ]
}

export const maySee = (user: StandInUser, deal: DealData) =>
  user.isAdmin || deal.owner_id === user.id

/** Nothing in the stages says won or lost: that is the status of a deal, which keeps its stage. */
export const standInPipelines = [
  {
    id: 1,
    label: 'Sales pipeline',
    stages: stages(10, 'Qualified', 'Contact made', 'Demo', 'Proposal', 'Negotiation'),
  },
  { id: 2, label: 'Renewals', stages: stages(20, 'Renewal due', 'Offer sent') },
]
function stages(first: number, ...labels: string[]) {
  return labels.map((label, n) => ({ id: `${first + n}`, label }))
}
const pipelineOf = (stageId: number) =>
  standInPipelines.find(({ stages }) => stages.some(({ id }) => id === `${stageId}`))?.id ?? 0

/** The budget of a company with one seat of the smallest plan. All users and apps share it. */
export const dailyTokens = 30_000

/** The tokens that the company has used today. A day ends at midnight, UTC. */
export class DailyBudget {
  #used = 0
  #day = ''

  get used(): number {
    const day = new Date().toISOString().slice(0, 10)
    if (day !== this.#day) this.#used = 0
    this.#day = day
    return this.#used
  }

  /** @returns whether there were so many tokens left. */
  take(tokens: number): boolean {
    const used = this.used + tokens
    if (used <= dailyTokens) this.#used = used
    return used <= dailyTokens
  }

  renew(): void {
    this.#used = 0
  }
}

/** Anyone can create deals, so the oldest make room for new ones. */
const maxDeals = 500
const maxChanges = 50

/** Pipedrive's form of a time: whole seconds. */
const asTime = (at: number) => new Date(at).toISOString().replace(/\.\d+/, '')

interface NewDeal {
  title: string
  value: number
  owner_id: number
  person_id: number | null
  org_id: number | null
  stage_id: number
}

const never = null as string | null
const always = {
  currency,
  status: 'open' as 'open' | 'won' | 'lost',
  stage_change_time: never,
  won_time: never,
  lost_time: never,
  close_time: never,
  expected_close_date: null,
  lost_reason: null,
  is_archived: false,
  is_deleted: false,
  custom_fields: {},
}

/** A deal as API v2 and webhooks v2 tell it. */
export type DealData = NewDeal &
  typeof always & { id: number; pipeline_id: number; add_time: string; update_time: string }

export interface StandInDeal {
  data: DealData
  /** The oldest first. What a deal was created with is not among them. */
  changes: { field: string; from: unknown; to: unknown; at: number }[]
}

/** The deals of the stand-in Pipedrive. They are lost when the server stops. */
export class StandInDeals {
  /** The oldest first. */
  readonly #deals = new Map<number, StandInDeal>()
  #nextId = 1

  constructor(users: PipedriveCompany['users']) {
    for (const [n, first] of firstDeals(Date.now()).entries()) {
      const { name, amount, contact, company } = first
      const owner = users[n % users.length] ?? users[0]
      const links = { person_id: contact ? 301 : null, org_id: company ? 501 : null }
      const about = { title: name, value: Number(amount), owner_id: owner.id, stage_id: 10 }
      const deal = this.add({ ...about, ...links }, first.createdAt)
      for (const [n, at] of first.movedAt.entries()) this.edit(deal, { stage_id: 11 + n }, at)
    }
  }

  add(deal: NewDeal, at = Date.now()): StandInDeal {
    const id = this.#nextId++
    const times = { add_time: asTime(at), update_time: asTime(at) }
    const pipeline_id = pipelineOf(deal.stage_id)
    const added = { data: { ...always, ...deal, ...times, id, pipeline_id }, changes: [] }
    this.#deals.set(id, added)
    forgetOldest(this.#deals, maxDeals)
    return added
  }

  /** Changes a deal. @returns the former values of what changed; undefined if nothing did. */
  edit(
    deal: StandInDeal,
    edit: Partial<Pick<DealData, 'stage_id' | 'status' | 'value'>>,
    at = Date.now(),
  ): Partial<DealData> | undefined {
    const { data } = deal
    const time = asTime(at)
    const next = { ...data, ...edit }
    next.pipeline_id = pipelineOf(next.stage_id)
    if (next.stage_id !== data.stage_id) next.stage_change_time = time
    if (next.status !== data.status) {
      next.close_time = next.status === 'open' ? null : time
      next.won_time = next.status === 'won' ? time : null
      next.lost_time = next.status === 'lost' ? time : null
    }
    const names = Object.keys(data) as (keyof DealData)[]
    const changed = names.filter((name) => data[name] !== next[name])
    if (changed.length === 0) return undefined
    const changes = changed.map((field) => ({ field, from: data[field], to: next[field], at }))
    deal.changes = [...deal.changes, ...changes].slice(-maxChanges)
    deal.data = { ...next, update_time: time }
    return Object.fromEntries(
      [...changed, 'update_time' as const].map((name) => [name, data[name]]),
    )
  }

  get(id: string): StandInDeal | undefined {
    return this.#deals.get(Number(id))
  }

  delete(id: string): void {
    this.#deals.delete(Number(id))
  }

  all(): StandInDeal[] {
    return [...this.#deals.values()]
  }
}
