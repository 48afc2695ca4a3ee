import * as v from 'valibot'
import { type Crm, ProviderError, type ProviderSettings, type Stage } from '../provider.ts'
import type { HubspotHttp } from './http.ts'
import { propertyNames } from './properties.ts'

const property = v.optional(v.nullable(v.string()), null)
const links = v.optional(v.object({ results: v.array(v.unknown()) }))

const dealAnswer = v.object({
  properties: v.object({
    dealname: property,
    amount: property,
    deal_currency_code: property,
    hubspot_owner_id: property,
  }),
  propertiesWithHistory: v.optional(
    v.record(
      v.string(),
      v.array(v.object({ value: v.nullable(v.string()), timestamp: v.string() })),
    ),
    {},
  ),
  associations: v.optional(v.object({ contacts: links, companies: links })),
})

const pipelinesAnswer = v.object({
  results: v.array(
    v.object({
      stages: v.array(
        v.object({
          id: v.string(),
          label: v.string(),
          metadata: v.optional(v.record(v.string(), v.unknown()), {}),
        }),
      ),
    }),
  ),
})

const ownerAnswer = v.object({
  firstName: v.optional(v.nullable(v.string())),
  lastName: v.optional(v.nullable(v.string())),
  email: v.optional(v.nullable(v.string())),
})

/** Creates the functions that read deals, stages and owners in HubSpot. */
export function createHubspotDeals(
  { read }: HubspotHttp,
  settings: ProviderSettings,
): Pick<Crm, 'deal' | 'stages' | 'ownerName' | 'dealUrl'> {
  return {
    async deal(accessToken, dealId, historyOf) {
      const query = new URLSearchParams({
        properties: 'dealname,dealstage,pipeline,amount,deal_currency_code,hubspot_owner_id',
        propertiesWithHistory: propertyNames[historyOf],
        associations: 'contacts,companies',
      })
      const path = `/crm/v3/objects/0-3/${encodeURIComponent(dealId)}?${query}`
      const deal = await read(path, accessToken, dealAnswer)
      if (deal === undefined) return undefined
      const { properties, propertiesWithHistory, associations } = deal
      const linked = [associations?.contacts, associations?.companies]
      return {
        name: properties.dealname,
        amount: properties.amount,
        currency: properties.deal_currency_code,
        ownerId: properties.hubspot_owner_id,
        linked: linked.some((list) => list !== undefined && list.results.length > 0),
        history: (propertiesWithHistory[propertyNames[historyOf]] ?? [])
          .map(({ value, timestamp }) => ({ value: value ?? '', at: new Date(timestamp) }))
          .sort((a, b) => a.at.getTime() - b.at.getTime()),
      }
    },

    async stages(accessToken) {
      const answer = await read('/crm/v3/pipelines/deals', accessToken, pipelinesAnswer)
      return (answer?.results ?? []).flatMap(({ stages }) =>
        stages.map(({ id, label, metadata }) => ({ id, label, outcome: outcomeOf(metadata) })),
      )
    },

    async ownerName(accessToken, ownerId) {
      try {
        const path = `/crm/v3/owners/${encodeURIComponent(ownerId)}`
        const owner = await read(path, accessToken, ownerAnswer)
        const name = [owner?.firstName, owner?.lastName].filter(Boolean).join(' ')
        return name || (owner?.email ?? undefined)
      } catch (error) {
        // To read owners, an app needs another scope. It may not have this scope.
        if (error instanceof ProviderError && error.kind === 'refused') return undefined
        throw error
      }
    },

    // The pages of deals and the consent page have the same origin.
    dealUrl: (accountId, dealId) =>
      `${settings.authorizeUrl.replace(/\/oauth\/authorize$/, '')}/contacts/${accountId}/record/0-3/${dealId}`,
  }
}

/** Decides whether a closed stage is won (probability 1) or lost (0). All metadata are strings. */
export function outcomeOf(metadata: {
  isClosed?: unknown
  probability?: unknown
}): Stage['outcome'] {
  if (metadata.isClosed !== 'true') return 'open'
  if (typeof metadata.probability !== 'string' || metadata.probability.trim() === '') {
    return 'closed'
  }
  const probability = Number(metadata.probability)
  if (probability === 1) return 'won'
  return probability === 0 ? 'lost' : 'closed'
}
