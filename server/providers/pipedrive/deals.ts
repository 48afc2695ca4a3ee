import * as v from 'valibot'
import { createCache } from '../../cache.ts'
import type { ProviderSettings } from '../calls.ts'
import { changedSince, dateIn, unlessMissing } from '../crm-answers.ts'
import type { CrmDeal } from '../deal.ts'
import type { Crm, CrmAccess } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import type { DealProperty } from '../registry.ts'
import {
  changelogOf,
  closedAt,
  dealFields,
  historyOf,
  isDeleted,
  lastStageOf,
  type PipedriveDeal,
} from './fields.ts'
import { calls, forbidden, listOf, missing, noScope, type PipedriveHttp } from './http.ts'

const dealsAtOnce = 100
/** Each changelog is a call. If one of several failed, all would be paid for again. */
const historiesAtOnce = 1
/** A deal has all of the company's own fields. More deals might be over 5 MB, which no answer may be. */
const foundAtOnce = '200'
/** The newest entries, of all fields. Further pages would cost as much again. */
const entriesAtOnce = 500
/** Fewer deals cost less one by one. */
const fewDeals = calls.deals.tokens / calls.deal.tokens

/** A user who could read a list can probably read one for so long. It costs as much as ten deals. */
const listFreshMs = 15 * 60_000
const mostUsers = 10_000

export function createPipedriveDeals({ call }: PipedriveHttp, settings: ProviderSettings) {
  const lists = createCache<true, string, CrmAccess>(mostUsers, {
    ttl: listFreshMs,
    fetchMethod: async (_key, _old, { context }): Promise<true> => {
      await call(context, 'deals', 'v2/deals?limit=1', listOf(dealFields))
      return true
    },
  })

  async function readOne(access: CrmAccess, dealId: string): Promise<PipedriveDeal | undefined> {
    const path = `v2/deals/${encodeURIComponent(dealId)}`
    try {
      const { data } = await call(access, 'deal', path, dealFields)
      return isDeleted(data) ? undefined : data
    } catch (error) {
      const { reason } = error instanceof ProviderError ? error : {}
      // A user from whom all is hidden learns that by the error of the list.
      if (reason === forbidden)
        await lists.fetch(access.sharedBy ?? access.accessToken, { context: access })
      else if (reason !== missing) throw error
      return undefined
    }
  }

  /** Reads those of the deals that the user may see. */
  async function readMany(access: CrmAccess, dealIds: readonly string[]): Promise<PipedriveDeal[]> {
    if (dealIds.length < fewDeals) {
      const deals = await Promise.all(dealIds.map((id) => readOne(access, id)))
      return deals.filter((deal) => deal !== undefined)
    }
    const path = `v2/deals?limit=${dealIds.length}&ids=${dealIds.map(encodeURIComponent)}`
    const { data } = await call(access, 'deals', path, listOf(dealFields))
    return data.filter((deal) => !isDeleted(deal))
  }

  async function withHistory(
    access: CrmAccess,
    deal: PipedriveDeal,
    property: DealProperty | undefined,
  ): Promise<CrmDeal> {
    if (property === undefined) return dealOf(access, deal)
    const path = `v1/deals/${deal.id}/changelog?limit=${entriesAtOnce}`
    const shape = v.nullish(changelogOf(property), [])
    const answer = await unlessMissing(call(access, 'changelog', path, shape), [
      missing,
      forbidden,
      noScope,
    ])
    if (answer !== undefined) return dealOf(access, deal, historyOf(property, deal, answer.data))
    // A user who may not see changelogs, or an app that may not read them, still gets the last change.
    return dealOf(access, deal, property === 'stage' ? lastStageOf(deal) : [])
  }

  return {
    dealsAtOnce,
    historiesAtOnce,
    linksAtOnce: dealsAtOnce,

    async deal(access, dealId, { history }) {
      const deal = await readOne(access, dealId)
      return deal && (await withHistory(access, deal, history))
    },

    async deals(access, dealIds, history) {
      const found = await readMany(access, dealIds)
      const deals = await Promise.all(found.map((deal) => withHistory(access, deal, history)))
      return new Map(deals.map((deal) => [deal.id, deal]))
    },

    async linked(access, dealIds) {
      const deals = await readMany(access, dealIds)
      return new Map(deals.map((deal) => [String(deal.id), isLinked(deal)]))
    },

    async changedDeals(access, since) {
      const { found, ...changed } = await changedSince(since, async (cursor, learn) => {
        const query = new URLSearchParams({
          // Pipedrive's times are whole seconds.
          updated_since: since.toISOString().replace(/\.\d+/, ''),
          ...{ sort_by: 'update_time', sort_direction: 'asc', limit: foundAtOnce },
          ...(cursor && { cursor }),
        })
        const shape = listOf(dealFields)
        const { data, next } = await call(access, 'deals', `v2/deals?${query}`, shape, { learn })
        return { found: data, lastAt: data.at(-1)?.update_time, after: next }
      })
      // A deal that changes meanwhile may be on two pages.
      const deals = new Map(
        found
          .filter((deal) => !isDeleted(deal))
          .map((deal) => [String(deal.id), dealOf(access, deal, lastStageOf(deal))]),
      )
      return { ...changed, ids: [...deals.keys()], deals }
    },

    dealUrl({ accountName }, dealId) {
      const site = settings.standIn
        ? settings.authorizeUrl.replace(/\/oauth\/authorize$/, '')
        : `https://${accountName ?? 'app.pipedrive.com'}`
      return `${site}/deal/${dealId}`
    },
  } satisfies Partial<Crm>
}

function dealOf(
  { apiUrl }: CrmAccess,
  deal: PipedriveDeal,
  history: CrmDeal['history'] = [],
): CrmDeal {
  const { id, title, value, currency, owner_id } = deal
  return {
    id: String(id),
    url: `${apiUrl}/deal/${id}`,
    name: title,
    // Pipedrive has no deal without a value: it is 0.
    amount: value ? String(value) : null,
    currency,
    ownerId: owner_id === null ? null : String(owner_id),
    closeDate: dateIn(closedAt(deal) ?? deal.expected_close_date),
    linked: isLinked(deal),
    history,
  }
}

const isLinked = ({ person_id, org_id }: PipedriveDeal) => person_id !== null || org_id !== null
