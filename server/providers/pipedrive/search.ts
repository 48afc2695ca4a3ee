import { changedSince } from '../crm-answers.ts'
import type { Crm } from '../provider.ts'
import { dealOf } from './deals.ts'
import { dealFields, isDeleted, lastStageOf } from './fields.ts'
import { listOf, type PipedriveHttp } from './http.ts'

const foundAtOnce = '500'

export function createPipedriveSearch({ call }: PipedriveHttp): Pick<Crm, 'changedDeals'> {
  return {
    async changedDeals(access, since) {
      const { found, ...changed } = await changedSince(since, async (cursor, learn) => {
        const query = new URLSearchParams({
          // Pipedrive's times are whole seconds.
          updated_since: since.toISOString().replace(/\.\d+/, ''),
          sort_by: 'update_time',
          sort_direction: 'asc',
          limit: foundAtOnce,
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
  }
}
