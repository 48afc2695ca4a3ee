import { type Context, Hono } from 'hono'
import * as v from 'valibot'
import {
  type Change,
  changedAt,
  currentOf,
  type HubspotAccount,
  type StandInDeal,
  standInHub,
  standInOwners,
  standInPipelines,
} from './account.ts'
import { createGuard, hubspotError } from './refusals.ts'

const dealsScope = 'crm.objects.deals.read'
const ownersScope = 'crm.objects.owners.read'
const accountScope = 'oauth'

/** The most deals of a batch, and the most with their history. */
const maxInputs = 100
const maxInputsWithHistory = 50
/** The most deals of a batch of associations. */
const maxAssociationInputs = 1_000

const inputs = v.array(v.object({ id: v.string() }))
const batchBody = v.object({
  inputs,
  properties: v.array(v.string()),
  propertiesWithHistory: v.array(v.string()),
})
const associationsBody = v.object({ inputs })
const searchBody = v.object({
  filterGroups: v.array(
    v.object({
      filters: v.array(
        v.object({
          propertyName: v.literal('hs_lastmodifieddate'),
          operator: v.literal('GTE'),
          value: v.pipe(v.string(), v.digits()),
        }),
      ),
    }),
  ),
  sorts: v.tuple([v.literal('hs_lastmodifieddate')]),
  properties: v.array(v.string()),
  limit: v.pipe(v.number(), v.maxValue(200)),
  after: v.pipe(v.string(), v.digits()),
})

/** HubSpot's API for deals, as far as Dealbell calls it. */
export function createHubspotApi({ apiUrl, tokens, deals }: HubspotAccount): Hono {
  const startedAt = Date.now()
  const guard = createGuard(tokens)
  const readDeals = guard(dealsScope)

  /** HubSpot leaves out unknown properties, and returns some that nobody asked for. */
  function dealAnswer(
    deal: StandInDeal,
    properties: readonly string[],
    propertiesWithHistory: readonly string[],
  ) {
    const { id, name, ownerId, history } = deal
    const stage = currentOf(deal, 'dealstage')
    const times = asTimes(history[0]?.at ?? 0, changedAt(deal))
    const always = {
      createdate: times.createdAt,
      hs_lastmodifieddate: times.updatedAt,
      hs_object_id: id,
    }
    const known = {
      dealname: name,
      amount: currentOf(deal, 'amount') || null,
      // HubSpot fills this in only where several currencies are on.
      deal_currency_code: null,
      dealstage: stage,
      pipeline: standInPipelines.find(({ stages }) => stages.some(({ id }) => id === stage))?.id,
      hubspot_owner_id: ownerId,
      closedate: closeDateOf(deal),
      hs_merged_object_ids: deals.formerIds(id).join(';') || null,
    }
    const asked = [...properties, ...propertiesWithHistory]
    function historyOf(property: Change['property']) {
      const changes = history.filter((change) => change.property === property)
      // A property that never had a value has no list.
      if (changes.length === 0) return null
      return changes.reverse().map(({ value, at }) => ({
        value,
        timestamp: new Date(at).toISOString(),
        sourceType: 'CRM_UI',
        sourceId: `userId:${standInHub.userId}`,
        updatedByUserId: standInHub.userId,
      }))
    }
    return {
      id,
      properties: {
        ...Object.fromEntries(Object.entries(known).filter(([name]) => asked.includes(name))),
        ...always,
      },
      ...(propertiesWithHistory.length > 0 && {
        propertiesWithHistory: Object.fromEntries(
          (['dealstage', 'amount'] as const)
            .filter((property) => propertiesWithHistory.includes(property))
            .map((property) => [property, historyOf(property)]),
        ),
      }),
      ...times,
      archived: false,
      // The host depends on where HubSpot keeps the account, so a client cannot compose this address.
      url: `${apiUrl}/sandbox/hubspot/eu1/contacts/${standInHub.hubId}/record/0-3/${id}`,
    }
  }

  return new Hono()
    .get('/crm/objects/2026-03/0-3/:id', readDeals, (c) => {
      const id = c.req.param('id')
      const deal = deals.find(id)
      if (deal === undefined) {
        const context = { context: { id: [id] } }
        return hubspotError(c, 404, 'OBJECT_NOT_FOUND', 'Object not found.', context)
      }
      // The id of a deal that was merged answers with the new deal, but without its links.
      const asked = deal.id === id ? listOf(c.req.query('associations')) : []
      const linked = (name: string, has: boolean, id: string, type: string) =>
        asked.includes(name) && has ? { [name]: { results: [{ id, type }] } } : {}
      const associations = {
        ...linked('contacts', deal.contact, '301', 'deal_to_contact'),
        ...linked('companies', deal.company, '501', 'deal_to_company'),
      }
      const { properties, propertiesWithHistory } = c.req.query()
      return c.json({
        ...dealAnswer(deal, listOf(properties), listOf(propertiesWithHistory)),
        ...(Object.keys(associations).length > 0 && { associations }),
      })
    })
    .post('/crm/objects/2026-03/0-3/batch/read', readDeals, async (c) => {
      const body = await readBody(c, batchBody)
      if (body === undefined) return invalidInput(c)
      const { inputs, properties, propertiesWithHistory } = body
      const most = propertiesWithHistory.length > 0 ? maxInputsWithHistory : maxInputs
      if (inputs.length > most) {
        return invalidInput(c, `The maximum number of inputs of this batch request is ${most}.`)
      }
      const found = new Set(inputs.flatMap(({ id }) => deals.find(id) ?? []))
      const ids = inputs.map(({ id }) => id).filter((id) => deals.find(id) === undefined)
      const message =
        'Could not get some DEAL objects, they may be deleted or not exist. Check that ids are valid.'
      return batchAnswer(
        c,
        [...found].map((deal) => dealAnswer(deal, properties, propertiesWithHistory)),
        ids.length === 0
          ? []
          : [{ status: 'error', category: 'OBJECT_NOT_FOUND', message, context: { ids } }],
      )
    })
    .post('/crm/associations/2026-03/0-3/:type{0-[12]}/batch/read', readDeals, async (c) => {
      const body = await readBody(c, associationsBody)
      if (body === undefined) return invalidInput(c)
      if (body.inputs.length > maxAssociationInputs) {
        return invalidInput(c, `A batch has at most ${maxAssociationInputs} inputs.`)
      }
      const [name, toObjectId, typeId] =
        c.req.param('type') === '0-1'
          ? (['contact', '301', 3] as const)
          : (['company', '501', 5] as const)
      const isLinked = ({ id }: { id: string }) => deals.get(id)?.[name] === true
      return batchAnswer(
        c,
        body.inputs.filter(isLinked).map(({ id }) => ({
          from: { id },
          to: [{ toObjectId, associationTypes: [{ category: 'HUBSPOT_DEFINED', typeId }] }],
        })),
        body.inputs
          .filter((input) => !isLinked(input))
          .map(({ id }) => ({
            status: 'error',
            category: 'OBJECT_NOT_FOUND',
            subCategory: 'crm.associations.NO_ASSOCIATIONS_FOUND',
            message: `No ${name} is associated with deal ${id}.`,
            context: { fromObjectId: [id], fromObjectType: ['deal'], toObjectType: [name] },
          })),
      )
    })
    .post('/crm/objects/2026-03/0-3/search', readDeals, async (c) => {
      const body = await readBody(c, searchBody)
      if (body === undefined) return invalidInput(c)
      const since = Number(body.filterGroups[0]?.filters[0]?.value ?? 0)
      const changed = deals
        .indexed()
        .filter((deal) => changedAt(deal) >= since)
        .sort((a, b) => changedAt(a) - changedAt(b))
      const start = Number(body.after)
      const end = start + body.limit
      return c.json({
        total: changed.length,
        results: changed.slice(start, end).map((deal) => dealAnswer(deal, body.properties, [])),
        ...(end < changed.length && { paging: { next: { after: String(end) } } }),
      })
    })
    .get('/crm/pipelines/2026-03/deals', readDeals, (c) => {
      const times = asTimes(startedAt, startedAt)
      return c.json({
        results: standInPipelines.map((pipeline, displayOrder) => ({
          ...pipeline,
          displayOrder,
          archived: false,
          ...times,
          stages: pipeline.stages.map((stage, displayOrder) => ({
            ...stage,
            displayOrder,
            archived: false,
            writePermissions: 'CRM_PERMISSIONS_ENFORCEMENT',
            ...times,
          })),
        })),
      })
    })
    .get('/crm/owners/2026-03/:id{[0-9]+}', guard(ownersScope), (c) => {
      const archived = c.req.query('archived') === 'true'
      const owner = standInOwners.find(
        (known) => known.id === c.req.param('id') && known.archived === archived,
      )
      if (owner === undefined) {
        return hubspotError(c, 404, 'OBJECT_NOT_FOUND', 'Owner not found.')
      }
      return c.json({ ...owner, ...asTimes(startedAt, startedAt) })
    })
    .get('/account-info/2026-03/details', guard(accountScope), (c) => {
      return c.json({
        portalId: standInHub.hubId,
        accountType: 'STANDARD',
        timeZone: 'Europe/Berlin',
        companyCurrency: standInHub.currency,
        additionalCurrencies: [],
        utcOffset: '+01:00',
        utcOffsetMilliseconds: 3_600_000,
        uiDomain: 'app-eu1.stand-in.example',
        dataHostingLocation: 'eu1',
      })
    })
}

/** When the deal was closed, or thirty days after its first change. A deal without an amount has no such date. */
function closeDateOf(deal: StandInDeal): string | null {
  const stage = currentOf(deal, 'dealstage')
  const known = standInPipelines.flatMap(({ stages }) => stages).find(({ id }) => id === stage)
  const entered = deal.history.findLast(({ property }) => property === 'dealstage')
  if (known?.metadata.isClosed === 'true' && entered) return new Date(entered.at).toISOString()
  if (currentOf(deal, 'amount') === '') return null
  return new Date((deal.history[0]?.at ?? 0) + 30 * 86_400_000).toISOString()
}

/** The body of a request; undefined if it does not have this form, which HubSpot answers with 400. */
async function readBody<Body>(
  c: Context,
  shape: v.GenericSchema<unknown, Body>,
): Promise<Body | undefined> {
  const body = v.safeParse(shape, await c.req.json().catch(() => undefined))
  return body.success ? body.output : undefined
}

const invalidInput = (c: Context, message = 'Invalid input JSON.') =>
  hubspotError(c, 400, 'VALIDATION_ERROR', message)

/** HubSpot answers 207 if something was not found. */
function batchAnswer(c: Context, results: readonly object[], errors: readonly object[]): Response {
  const now = new Date().toISOString()
  const times = { startedAt: now, completedAt: now }
  const answer = { status: 'COMPLETE', results, ...times }
  if (errors.length === 0) return c.json(answer)
  return c.json({ ...answer, numErrors: errors.length, errors }, 207)
}

const asTimes = (createdAt: number, updatedAt: number) => ({
  createdAt: new Date(createdAt).toISOString(),
  updatedAt: new Date(updatedAt).toISOString(),
})

/** The items of a parameter, such as `properties=dealname,amount`. */
function listOf(parameter: string | undefined): string[] {
  return parameter?.split(',') ?? []
}
