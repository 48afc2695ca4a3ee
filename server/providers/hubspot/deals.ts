import * as v from 'valibot'
import type { ProviderSettings } from '../calls.ts'
import { dateIn, unlessMissing } from '../crm-answers.ts'
import type { CrmDeal } from '../deal.ts'
import type { Crm, CrmAccess } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import type { DealProperty } from '../registry.ts'
import { createCurrencyCache } from './currency.ts'
import { type HubspotHttp, notFound } from './http.ts'
import { propertyNames } from './properties.ts'

/** HubSpot reads up to 100 deals at once, but only 50 with their history. */
const dealsAtOnce = 50
const linksAtOnce = 100
/**
 * The most bytes of an answer with histories. It is lower than for other answers, because many short entries take
 * long to check.
 */
const mostHistoryBytes = 2_000_000
const property = v.optional(v.nullable(v.string()), null)
const links = v.nullish(v.object({ results: v.array(v.unknown()) }))

const dealAnswer = v.object({
  id: v.string(),
  /** The deal's page. The host differs between HubSpot's data centres. */
  url: v.nullish(v.string()),
  properties: v.object({
    dealname: property,
    amount: property,
    deal_currency_code: property,
    hubspot_owner_id: property,
    closedate: v.fallback(property, null),
  }),
  propertiesWithHistory: v.nullish(
    v.record(v.string(), v.nullable(v.array(v.object({ value: property, timestamp: v.string() })))),
  ),
  associations: v.nullish(v.object({ contacts: links, companies: links })),
})

type DealAnswer = v.InferOutput<typeof dealAnswer>

/** What a batch answers about inputs without a result. The status is then 207. */
const batchErrors = {
  numErrors: v.optional(v.number(), 0),
  errors: v.optional(v.array(v.object({ category: v.optional(v.string()) })), []),
}

const batchAnswer = v.object({ results: v.array(dealAnswer), ...batchErrors })

const associationsAnswer = v.object({
  ...batchErrors,
  results: v.array(
    v.object({ from: v.object({ id: v.string() }), to: v.optional(v.array(v.unknown()), []) }),
  ),
})

// '0-3' is the object type of deals.
export const dealsPath = '/crm/objects/2026-03/0-3'
const hubspotPages = /^https:\/\/app(-[a-z0-9]+)?\.hubspot\.com$/
const longestUrl = 300
/** The object types of contacts and companies. */
const linkingTypes = ['0-1', '0-2']
const properties = ['dealname', 'amount', 'deal_currency_code', 'hubspot_owner_id', 'closedate']

export function createHubspotDeals(
  http: HubspotHttp,
  settings: ProviderSettings,
): Pick<Crm, 'deal' | 'deals' | 'dealsAtOnce' | 'linked' | 'linksAtOnce' | 'dealUrl'> {
  const { read } = http
  const currencyOf = createCurrencyCache(http)

  /** Returns the currency of amounts without one. Asks for it only if one of these deals needs it. */
  async function currencyFor(access: CrmAccess, deals: readonly DealAnswer[]) {
    const isNeeded = deals.some(
      ({ properties: { amount, deal_currency_code } }) => amount && !deal_currency_code,
    )
    return isNeeded ? await currencyOf(access) : null
  }

  /** The deal's page as HubSpot names it. Any other address could lead people to a copy of HubSpot. */
  function pageOf(access: CrmAccess, { id, url }: DealAnswer): string {
    const page = url ? URL.parse(url) : null
    const isOfHubspot =
      page !== null &&
      (settings.standIn
        ? settings.authorizeUrl.startsWith(`${page.origin}/`)
        : hubspotPages.test(page.origin)) &&
      page.username === '' &&
      page.href.length <= longestUrl
    // In a message of Slack, `|` ends the address.
    return isOfHubspot
      ? page.href.replaceAll('|', '%7C')
      : dealUrl({ ...access, accountName: null }, id)
  }

  // The pages of deals and the consent page have the same origin.
  const dealUrl: Crm['dealUrl'] = ({ accountId }, dealId) =>
    `${settings.authorizeUrl.replace(/\/oauth\/authorize$/, '')}/contacts/${accountId}/record/0-3/${dealId}`

  return {
    dealsAtOnce,
    linksAtOnce,

    async deal(access, dealId, fields) {
      const query = new URLSearchParams({
        properties: properties.join(),
        ...(fields.history && { propertiesWithHistory: propertyNames[fields.history] }),
        ...(fields.links && { associations: 'contacts,companies' }),
      })
      const path = `${dealsPath}/${encodeURIComponent(dealId)}?${query}`
      const deal = await unlessMissing(
        read(access, path, dealAnswer, { mostBytes: mostHistoryBytes }),
        [notFound],
      )
      if (deal === undefined) return undefined
      const lists = [deal.associations?.contacts, deal.associations?.companies]
      const linked = lists.some((list) => list && list.results.length > 0)
      const currency = await currencyFor(access, [deal])
      return dealOf(deal, fields.history, {
        linked: fields.links ? linked : undefined,
        currency,
        url: pageOf(access, deal),
      })
    },

    async deals(access, dealIds, history) {
      const answer = await read(access, `${dealsPath}/batch/read`, batchAnswer, {
        body: {
          inputs: asInputs(dealIds),
          properties,
          // HubSpot requires the field.
          propertiesWithHistory: history === undefined ? [] : [propertyNames[history]],
        },
        mostBytes: mostHistoryBytes,
      })
      const deals = found(answer)
      const currency = await currencyFor(access, deals)
      return new Map(
        deals.map((deal) => {
          const more = { linked: undefined, currency, url: pageOf(access, deal) }
          return [deal.id, dealOf(deal, history, more)]
        }),
      )
    },

    async linked(access, dealIds) {
      const linked = new Set<string>()
      for (const type of linkingTypes) {
        const left = dealIds.filter((id) => !linked.has(id))
        if (left.length === 0) break
        const path = `/crm/associations/2026-03/0-3/${type}/batch/read`
        const answer = await read(access, path, associationsAnswer, {
          body: { inputs: asInputs(left) },
        })
        for (const { from, to } of found(answer)) if (to.length > 0) linked.add(from.id)
      }
      // The answer is the same for a deal that does not exist.
      return new Map(dealIds.map((id) => [id, linked.has(id)]))
    },

    dealUrl,
  }
}

function dealOf(
  { id, properties, propertiesWithHistory }: DealAnswer,
  history: DealProperty | undefined,
  { linked, currency, url }: Pick<CrmDeal, 'linked' | 'currency' | 'url'>,
): CrmDeal {
  return {
    id,
    url,
    name: properties.dealname,
    amount: properties.amount,
    currency: properties.deal_currency_code || currency,
    ownerId: properties.hubspot_owner_id,
    closeDate: dateIn(properties.closedate),
    linked,
    history: ((history && propertiesWithHistory?.[propertyNames[history]]) ?? [])
      .map(({ value, timestamp }) => ({ value: value ?? '', at: new Date(timestamp) }))
      .sort((a, b) => a.at.getTime() - b.at.getTime()),
  }
}

/**
 * Returns the results of a batch. It lacks deals that do not exist or have no links.
 * @throws ProviderError if it lacks others: they are not known to be missing.
 */
function found<Result>({
  results,
  errors,
  numErrors,
}: {
  results: Result[]
  errors: Array<{ category?: string | undefined }>
  numErrors: number
}): Result[] {
  const isComplete =
    numErrors <= errors.length && errors.every(({ category }) => category === notFound)
  if (isComplete) return results
  throw new ProviderError('hubspot', 'read', 'unreachable', 'batch_incomplete')
}

const asInputs = (ids: readonly string[]) => ids.map((id) => ({ id }))
