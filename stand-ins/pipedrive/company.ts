import type { ProviderSettings } from '../../server/providers/calls.ts'
import type { Site } from '../page.ts'
import { forgetOldest, StandInTokens } from '../tokens.ts'

/** What the pages and the APIs of the stand-in Pipedrive share. */
export interface PipedriveCompany {
  site: Site
  settings: ProviderSettings
  /** The public address of this server. */
  apiUrl: string
  /** The app's callback address. */
  redirectUri: string
  /** The path of the page with the deals. */
  list: string
  users: readonly StandInUser[]
  deals: StandInDeals
}

export const standInCompany = {
  id: 5_300_001,
  name: 'Acme (stand-in)',
  domain: 'acme-stand-in',
  currency: 'EUR',
}

export interface StandInUser {
  id: number
  name: string
  email: string
  /** An admin sees all deals. Others see only their own, as with the visibility "owner only". */
  isAdmin: boolean
  /** A token belongs to one user. So an uninstallation ends all of this user, and no others. */
  tokens: StandInTokens
}

export function createUsers(secret: string): StandInUser[] {
  return [
    { id: 6001, name: 'Ada Admin', isAdmin: true },
    { id: 6002, name: 'Ben Berg', isAdmin: false },
  ].map((user) => ({
    ...user,
    email: `${user.name.split(' ')[0]?.toLowerCase()}@acme-stand-in.example`,
    tokens: new StandInTokens(`pipedrive-stand-in-${user.id}-`, `${secret}/${user.id}`),
  }))
}

export const maySee = (user: StandInUser, deal: { owner_id: number }) =>
  user.isAdmin || deal.owner_id === user.id

export const standInPipelines = [
  { id: 1, label: 'Sales pipeline', stages: ['Qualified', 'Demo', 'Proposal', 'Negotiation'] },
  { id: 2, label: 'Renewals', stages: ['Renewal due', 'Offer sent'] },
].map(({ id, label, stages }) => ({
  id,
  label,
  // Nothing says won or lost: that is the status of a deal, which keeps its stage.
  stages: stages.map((label, n) => ({ id: String(id * 10 + n), label })),
}))

const dayMs = 86_400_000
/** Anyone can create deals, so the oldest make room for new ones. */
const maxDeals = 500
const maxChanges = 50

/** Pipedrive's form of a time: whole seconds. */
export const asTime = (at: number) => new Date(at).toISOString().replace(/\.\d+/, '')

/** A deal as API v2 and webhooks v2 tell it. */
export interface DealData {
  id: number
  title: string
  owner_id: number
  person_id: number | null
  org_id: number | null
  value: number
  status: 'open' | 'won' | 'lost'
  stage_id: number
  pipeline_id: number
  update_time: string
  stage_change_time: string | null
  won_time: string | null
  lost_time: string | null
  close_time: string | null
  add_time: string
}

type Editable = 'stage_id' | 'status' | 'value'

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

  /** As in the stand-in HubSpot: before a person moves anything, and older than the relay looks back. */
  constructor(users: readonly StandInUser[]) {
    const now = Date.now()
    for (const [title, value, owner, person_id, org_id, moves, lastMoveDaysAgo] of [
      ['Acme renewal', 12_500, 0, 301, 501, 3, 3.4],
      ['Globex pilot', 4_800, 1, 301, null, 2, 3.8],
      ['Initech expansion', 73_000.5, 0, null, 501, 3, 3.6],
      ['Umbrella onboarding', 0, 1, null, null, 1, 3.2],
    ] as const) {
      const owner_id = users[owner]?.id ?? 0
      const first = { title, value, owner_id, person_id, org_id, stage_id: 10 }
      const deal = this.add(first, now - 8 * dayMs)
      for (let n = 1; n <= moves; n++) {
        this.edit(deal, { stage_id: 10 + n }, now - (lastMoveDaysAgo + (moves - n) * 0.7) * dayMs)
      }
    }
  }

  add(
    deal: Pick<DealData, 'title' | 'value' | 'owner_id' | 'person_id' | 'org_id' | 'stage_id'>,
    at = Date.now(),
  ): StandInDeal {
    const data: DealData = {
      ...deal,
      id: this.#nextId++,
      pipeline_id: pipelineOf(deal.stage_id),
      status: 'open',
      add_time: asTime(at),
      update_time: asTime(at),
      stage_change_time: null,
      won_time: null,
      lost_time: null,
      close_time: null,
    }
    const added = { data, changes: [] }
    this.#deals.set(data.id, added)
    forgetOldest(this.#deals, maxDeals)
    return added
  }

  /** Changes a deal. @returns the former values of all fields that changed; undefined if none did. */
  edit(
    deal: StandInDeal,
    edit: Partial<Pick<DealData, Editable>>,
    at = Date.now(),
  ): Partial<DealData> | undefined {
    const { data } = deal
    const time = asTime(at)
    const { stage_id = data.stage_id, status = data.status } = edit
    const next: DealData = {
      ...data,
      ...edit,
      pipeline_id: pipelineOf(stage_id),
      ...(stage_id !== data.stage_id && { stage_change_time: time }),
      ...(status !== data.status && {
        close_time: status === 'open' ? null : time,
        won_time: status === 'won' ? time : null,
        lost_time: status === 'lost' ? time : null,
      }),
    }
    const names = Object.keys(data) as (keyof DealData)[]
    const changed = names.filter((name) => data[name] !== next[name])
    if (changed.length === 0) return undefined
    const logged = changed.map((field) => ({ field, from: data[field], to: next[field], at }))
    deal.changes.push(...logged)
    deal.changes.splice(0, deal.changes.length - maxChanges)
    deal.data = { ...next, update_time: time }
    const previous = [...changed, 'update_time' as const].map((name) => [name, data[name]])
    return Object.fromEntries(previous)
  }

  get(id: number): StandInDeal | undefined {
    return this.#deals.get(id)
  }

  delete(id: number): void {
    this.#deals.delete(id)
  }

  all(): StandInDeal[] {
    return [...this.#deals.values()]
  }
}

export function pipelineOf(stageId: number): number {
  return (
    standInPipelines.find(({ stages }) => stages.some(({ id }) => id === `${stageId}`))?.id ?? 0
  )
}
