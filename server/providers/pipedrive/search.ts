import { timeOf } from '../crm-answers.ts'
import type { CrmDeal } from '../deal.ts'
import type { Crm } from '../provider.ts'
import { dealOf, dealsAnswer } from './deals.ts'
import { isDeleted, lastStageOf } from './fields.ts'
import type { PipedriveHttp } from './http.ts'

const foundAtOnce = '500'

export function createPipedriveSearch({ call }: PipedriveHttp): Pick<Crm, 'changedDeals'> {
  return {
    async changedDeals(access, since) {
      const deals = new Map<string, CrmDeal>()
      let at: Date | undefined
      let cursor: string | null | undefined
      for (;;) {
        const query = new URLSearchParams({
          // Pipedrive's times are whole seconds.
          updated_since: since.toISOString().replace(/\.\d+/, ''),
          sort_by: 'update_time',
          sort_direction: 'asc',
          limit: foundAtOnce,
          ...(cursor && { cursor }),
        })
        const answer = await call(access, 'deals', `v2/deals?${query}`, dealsAnswer, {
          learn(headers) {
            at ??= timeOf(headers)
          },
        })
        const found = answer.data ?? []
        for (const deal of found.filter((deal) => !isDeleted(deal))) {
          deals.set(String(deal.id), dealOf(access, deal, lastStageOf(deal)))
        }
        const last = found.at(-1)
        const until = last === undefined ? since : new Date(last.update_time)
        cursor = answer.additional_data?.next_cursor
        // A bulk edit gives many deals the same time. Only then turn the page: a deal that changes
        // meanwhile moves to the end, and another one would move to a page that we have read.
        if (!cursor || until > since) {
          const ids = [...deals.keys()]
          return { ids, at: at ?? new Date(), until, complete: !cursor, deals }
        }
      }
    },
  }
}
