import * as v from 'valibot'
import { timeOf } from '../crm-answers.ts'
import type { Crm } from '../provider.ts'
import { dealsPath } from './deals.ts'
import type { HubspotHttp } from './http.ts'

const foundAtOnce = 200

const searchAnswer = v.object({
  results: v.array(
    v.object({ id: v.string(), properties: v.object({ hs_lastmodifieddate: v.string() }) }),
  ),
  paging: v.optional(v.object({ next: v.optional(v.object({ after: v.string() })) })),
})

export function createHubspotSearch({ read }: HubspotHttp): Pick<Crm, 'changedDeals'> {
  return {
    async changedDeals(access, since) {
      const ids: string[] = []
      let at: Date | undefined
      let after: string | undefined
      for (;;) {
        const search = {
          filterGroups: [
            {
              filters: [
                {
                  propertyName: 'hs_lastmodifieddate',
                  operator: 'GTE',
                  value: String(since.getTime()),
                },
              ],
            },
          ],
          sorts: ['hs_lastmodifieddate'],
          properties: ['hs_lastmodifieddate'],
          limit: foundAtOnce,
          after: after ?? '0',
        }
        const answer = await read(access, `${dealsPath}/search`, searchAnswer, {
          body: search,
          learn(headers) {
            at ??= timeOf(headers)
          },
        })
        ids.push(...answer.results.map(({ id }) => id))
        const last = answer.results.at(-1)
        const until = last === undefined ? since : new Date(last.properties.hs_lastmodifieddate)
        after = answer.paging?.next?.after
        // A bulk edit gives many deals the same time. Only then turn the page: a deal that changes
        // meanwhile moves to the end, and another one would move to a page that we have read.
        if (after === undefined || until > since) {
          return { ids, at: at ?? new Date(), until, complete: after === undefined }
        }
      }
    },
  }
}
