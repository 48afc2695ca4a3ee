import * as v from 'valibot'
import { changedSince } from '../crm-answers.ts'
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
      const value = String(since.getTime())
      const filter = { propertyName: 'hs_lastmodifieddate', operator: 'GTE', value }
      const { found, ...changed } = await changedSince(since, async (after = '0', learn) => {
        const body = {
          filterGroups: [{ filters: [filter] }],
          sorts: ['hs_lastmodifieddate'],
          properties: ['hs_lastmodifieddate'],
          limit: foundAtOnce,
          after,
        }
        const path = `${dealsPath}/search`
        const { results, paging } = await read(access, path, searchAnswer, { body, learn })
        const lastAt = results.at(-1)?.properties.hs_lastmodifieddate
        return { found: results.map(({ id }) => id), lastAt, after: paging?.next?.after }
      })
      return { ...changed, ids: found }
    },
  }
}
