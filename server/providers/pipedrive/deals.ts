import * as v from 'valibot'
import type { ProviderSettings } from '../calls.ts'
import { dateIn, unlessMissing } from '../crm-answers.ts'
import type { CrmDeal } from '../deal.ts'
import type { Crm, CrmAccess } from '../provider.ts'
import type { DealProperty } from '../registry.ts'
import {
  changelogAnswer,
  closedAt,
  dealFields,
  historyOf,
  isDeleted,
  type PipedriveDeal,
} from './fields.ts'
import { calls, hidden, missing, type PipedriveHttp } from './http.ts'

/** The API takes 100 ids. But changelogs are read one by one, and these calls must end within ten seconds. */
const dealsAtOnce = 50
const linksAtOnce = 100
/** The newest entries, of all fields. Further pages would cost as much again. */
const entriesAtOnce = 500
/** Fewer deals cost less one by one. */
const fewDeals = calls.deals.tokens / calls.deal.tokens

const dealAnswer = v.object({ data: dealFields })
export const dealsAnswer = v.object({
  data: v.nullish(v.array(dealFields), []),
  additional_data: v.nullish(v.object({ next_cursor: v.nullish(v.string()) })),
})

export function createPipedriveDeals(
  { call }: PipedriveHttp,
  settings: ProviderSettings,
): Pick<Crm, 'deal' | 'deals' | 'dealsAtOnce' | 'linked' | 'linksAtOnce' | 'dealUrl'> {
  async function readOne(access: CrmAccess, dealId: string): Promise<PipedriveDeal | undefined> {
    const path = `v2/deals/${encodeURIComponent(dealId)}`
    const answer = await unlessMissing(call(access, 'deal', path, dealAnswer), [missing, hidden])
    return answer === undefined || isDeleted(answer.data) ? undefined : answer.data
  }

  /** Reads those of the deals that the user may see, by the ids that were asked for. */
  async function readMany(access: CrmAccess, dealIds: readonly string[]) {
    if (dealIds.length < fewDeals) {
      const found = await Promise.all(
        dealIds.map(async (id) => [id, await readOne(access, id)] as const),
      )
      return new Map(found.flatMap(([id, deal]) => (deal === undefined ? [] : [[id, deal]])))
    }
    const query = new URLSearchParams({ ids: dealIds.join(), limit: String(dealIds.length) })
    const { data } = await call(access, 'deals', `v2/deals?${query}`, dealsAnswer)
    return new Map(
      (data ?? []).filter((deal) => !isDeleted(deal)).map((deal) => [`${deal.id}`, deal]),
    )
  }

  async function withHistory(
    access: CrmAccess,
    deal: PipedriveDeal,
    property: DealProperty | undefined,
  ): Promise<CrmDeal> {
    if (property === undefined) return dealOf(access, deal)
    const path = `v1/deals/${deal.id}/changelog?limit=${entriesAtOnce}`
    // The deal may have been deleted meanwhile.
    const answer = await unlessMissing(call(access, 'changelog', path, changelogAnswer), [
      missing,
      hidden,
    ])
    return dealOf(access, deal, historyOf(property, deal, answer?.data ?? []))
  }

  return {
    dealsAtOnce,
    linksAtOnce,

    async deal(access, dealId, { history }) {
      const deal = await readOne(access, dealId)
      return deal && (await withHistory(access, deal, history))
    },

    async deals(access, dealIds, history) {
      const deals = new Map<string, CrmDeal>()
      for (const [id, deal] of await readMany(access, dealIds)) {
        deals.set(id, await withHistory(access, deal, history))
      }
      return deals
    },

    async linked(access, dealIds) {
      const deals = [...(await readMany(access, dealIds))]
      return new Set(deals.filter(([, deal]) => isLinked(deal)).map(([id]) => id))
    },

    dealUrl({ accountName }, dealId) {
      const site = settings.standIn
        ? settings.authorizeUrl.replace(/\/oauth\/authorize$/, '')
        : `https://${accountName ?? 'app.pipedrive.com'}`
      return `${site}/deal/${dealId}`
    },
  }
}

export function dealOf(
  { apiUrl }: CrmAccess,
  deal: PipedriveDeal,
  history: CrmDeal['history'] = [],
): CrmDeal {
  const { id, title, value, currency, owner_id } = deal
  return {
    id: String(id),
    url: `${apiUrl}/deal/${id}`,
    name: title,
    amount: value === null ? null : String(value),
    currency,
    ownerId: owner_id === null ? null : String(owner_id),
    closeDate: dateIn(closedAt(deal) ?? deal.expected_close_date),
    linked: isLinked(deal),
    history,
  }
}

const isLinked = ({ person_id, org_id }: PipedriveDeal) => person_id !== null || org_id !== null
