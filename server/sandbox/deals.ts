import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type Context, Hono } from 'hono'
import { html } from 'hono/html'
import * as v from 'valibot'
import { propertyNames } from '../providers/hubspot/properties.ts'
import { hubSpotSignature } from '../providers/hubspot/signature.ts'
import type { ProviderSettings } from '../providers/provider.ts'
import { formatAmount } from '../relay/amount.ts'
import { watchedProperties } from '../relay/rules.ts'
import { formFields } from './form.ts'
import { standInHub } from './hub.ts'
import { standInPage } from './page.ts'
import type { StandInTokens } from './tokens.ts'

const dealsScope = 'crm.objects.deals.read'
const ownersScope = 'crm.objects.owners.read'

interface StandInDeal {
  id: string
  name: string
  contact: boolean
  company: boolean
  /** The changes of stage and amount, the oldest first. */
  history: Change[]
}

interface Change {
  /** HubSpot's name of the property. */
  property: 'dealstage' | 'amount'
  value: string
  /** Milliseconds since 1970. */
  at: number
}

interface StandInWebhook {
  deal: StandInDeal
  change: Change
  eventId: number
}

/** Anyone can create deals, so the oldest make room for new ones. */
const maxDeals = 500
const maxChanges = 50
const maxNameLength = 200
/** HubSpot's limits for one app with marketplace distribution in one account. */
const callLimit = { calls: 110, intervalMs: 10_000, policy: 'TEN_SECONDLY_ROLLING' }
/** HubSpot counts searches apart. */
const searchLimit = { calls: 5, intervalMs: 1_000, policy: 'SECONDLY' }
/** The most deals of a batch, and the most with their history. */
const maxInputs = 100
const maxInputsWithHistory = 50
/** The most deals of a batch of associations. */
const maxAssociationInputs = 1_000
/** Each webhook that is being sent uses two connections of this process. */
const maxWebhooks = 10
const maxWaitingWebhooks = 500

const stages = [
  stage('appointmentscheduled', 'Appointment scheduled', '0.2', 'false'),
  stage('qualifiedtobuy', 'Qualified to buy', '0.4', 'false'),
  stage('presentationscheduled', 'Presentation scheduled', '0.6', 'false'),
  stage('contractsent', 'Contract sent', '0.9', 'false'),
  stage('closedwon', 'Closed won', '1.0', 'true'),
  stage('closedlost', 'Closed lost', '0.0', 'true'),
]

function stage(id: string, label: string, probability: string, isClosed: string) {
  return { id, label, metadata: { probability, isClosed } }
}

const standInOwner = {
  id: '4001',
  type: 'PERSON',
  firstName: 'Alex',
  lastName: 'Rivera',
  email: 'alex.rivera@stand-in.example',
  userId: standInHub.userId,
  archived: false,
}

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

const changedAt = ({ history }: StandInDeal) => history.at(-1)?.at ?? 0

/** The value that a property has now. */
const currentOf = ({ history }: Pick<StandInDeal, 'history'>, property: Change['property']) =>
  history.findLast((change) => change.property === property)?.value ?? ''

const asTimes = (createdAt: number, updatedAt: number) => ({
  createdAt: new Date(createdAt).toISOString(),
  updatedAt: new Date(updatedAt).toISOString(),
})

/** The properties to which the app subscribes (server/doctor/manifests.ts). */
const subscribed: ReadonlySet<string> = new Set(
  [...watchedProperties].map((property) => propertyNames[property]),
)

const notice =
  'This is not HubSpot. It plays a HubSpot account on this machine: what you change here is told to Dealbell as HubSpot would.'

/** The stand-in's deals: a page to change them, the API that Dealbell reads, and the webhooks. */
export function createStandInDeals({
  settings,
  appUrl,
  apiUrl,
  tokenOf,
}: {
  settings: ProviderSettings
  appUrl: string
  apiUrl: string
  /** What the access token of a call means, or why it is not valid. */
  tokenOf: (c: Context) => ReturnType<StandInTokens['read']>
}): Hono {
  const startedAt = Date.now()
  const deals = new Map<string, StandInDeal>()
  let nextId = 9_001
  let nextEventId = 1
  /** The oldest first. */
  const waiting: StandInWebhook[] = []
  let sending = 0
  const takeCall = countCalls(callLimit)
  const takeSearch = countCalls(searchLimit)

  function add(deal: Omit<StandInDeal, 'id'>): StandInDeal {
    const id = String(nextId++)
    const created = { ...deal, id }
    deals.set(id, created)
    const [oldest] = deals.keys()
    if (oldest !== undefined && deals.size > maxDeals) deals.delete(oldest)
    return created
  }

  for (const [name, amount, contact, company] of [
    ['Acme renewal', '12500', true, true],
    ['Globex pilot', '4800', true, false],
    ['Initech expansion', '73000.5', false, true],
    ['Umbrella onboarding', '', false, false],
  ] as const) {
    const at = startedAt - 86_400_000
    add({
      name,
      contact,
      company,
      history: [
        { property: 'dealstage', value: 'appointmentscheduled', at },
        ...(amount === '' ? [] : [{ property: 'amount' as const, value: amount, at }]),
      ],
    })
  }

  /** Reports a change soon. If too many changes wait, the oldest is never reported. */
  function report(deal: StandInDeal, change: Change): void {
    if (!subscribed.has(change.property)) return
    waiting.push({ deal, change, eventId: nextEventId++ })
    if (waiting.length > maxWaitingWebhooks) waiting.shift()
    void sendWaiting()
  }

  async function sendWaiting(): Promise<void> {
    if (sending >= maxWebhooks) return
    sending++
    for (;;) {
      const next = waiting.shift()
      if (next === undefined) break
      await sendWebhook(next)
    }
    sending--
  }

  /** Sends a webhook as HubSpot does: signed, in a batch, and again if it is not acknowledged. */
  async function sendWebhook({ deal, change, eventId }: StandInWebhook) {
    for (let attempt = 0; attempt < 10; attempt++) {
      const body = Buffer.from(
        JSON.stringify([
          {
            eventId,
            subscriptionId: 2_000_001,
            portalId: standInHub.hubId,
            appId: standInHub.appId,
            occurredAt: change.at,
            subscriptionType: 'object.propertyChange',
            attemptNumber: attempt,
            objectId: Number(deal.id),
            objectTypeId: '0-3',
            propertyName: change.property,
            propertyValue: change.value,
            changeSource: 'CRM_UI',
            sourceId: `userId:${standInHub.userId}`,
          },
        ]),
      )
      const timestamp = String(Date.now())
      // Signed for the public address, but sent directly to this server and not through a proxy.
      const url = `${apiUrl}/webhooks/hubspot`
      const signature = hubSpotSignature(settings.clientSecret, {
        method: 'POST',
        url,
        body,
        timestamp,
      })
      try {
        const answer = await fetch(`${new URL(settings.apiUrl).origin}/webhooks/hubspot`, {
          method: 'POST',
          headers: {
            'Content-Type': 'application/json',
            'X-HubSpot-Request-Timestamp': timestamp,
            'X-HubSpot-Signature-v3': signature,
          },
          body,
          signal: AbortSignal.timeout(5_000),
        })
        if (answer.ok) return
      } catch {
        // HubSpot repeats a webhook that got no answer or an error, 4xx too.
      }
      await delay(1_000 * 2 ** attempt)
    }
  }

  function enter(deal: StandInDeal, property: Change['property'], value: string): void {
    // Saving the current value changes nothing, and HubSpot reports nothing.
    if (currentOf(deal, property) === value) return
    const change = { property, value, at: Date.now() }
    deal.history.push(change)
    const [oldest, ...others] = deal.history.filter((each) => each.property === property)
    if (oldest !== undefined && others.length >= maxChanges) {
      deal.history.splice(deal.history.indexOf(oldest), 1)
    }
    report(deal, change)
  }

  function isStage(id: string | undefined): id is string {
    return stages.some((known) => known.id === id)
  }

  /** HubSpot's refusal of a call; undefined if it may be made. A call that may be made counts. */
  function refused(c: Context, scope: string): Response | undefined {
    const token = tokenOf(c)
    if (token === 'expired') {
      const message = 'The OAuth token used to make this call expired 1 second(s) ago.'
      return hubspotError(c, 401, 'EXPIRED_AUTHENTICATION', message)
    }
    if (typeof token === 'string' || token.use !== 'access') {
      return hubspotError(c, 401, 'INVALID_AUTHENTICATION', 'Authentication credentials not found.')
    }
    if (c.req.path.endsWith('/search')) {
      if (takeSearch() === undefined) return limited(c, searchLimit.policy)
    } else if (!c.req.path.includes('/crm/associations/')) {
      const remaining = takeCall()
      c.header('X-HubSpot-RateLimit-Max', String(callLimit.calls))
      c.header('X-HubSpot-RateLimit-Interval-Milliseconds', String(callLimit.intervalMs))
      c.header('X-HubSpot-RateLimit-Remaining', String(remaining ?? 0))
      if (remaining === undefined) return limited(c, callLimit.policy)
    }
    // A token of an earlier version does not name its scopes.
    if (token.scopes === undefined || token.scopes.includes(scope)) return undefined
    const message = "This app hasn't been granted all required scopes to make this call."
    const context = { requiredGranularScopes: [scope] }
    return hubspotError(c, 403, 'MISSING_SCOPES', message, { errors: [{ message, context }] })
  }

  const list = `${appUrl}/sandbox/hubspot/deals`

  return (
    new Hono()
      .get('/', (c) => c.redirect(list))
      // Only digits, because the id becomes a part of a header.
      .get('/contacts/:portal/record/0-3/:id{[0-9]+}', (c) =>
        c.redirect(`${list}#deal-${c.req.param('id')}`),
      )
      .get('/deals', (c) =>
        c.html(
          standInPage({
            title: 'Deals',
            notice,
            children: html`
            <p>Move a deal to another stage, and see what arrives in the
              <a href="${appUrl}/sandbox/slack">stand-in Slack</a>.</p>
            <ul class="records">${[...deals.values()].reverse().map(dealItem)}</ul>
            <h2>New deal</h2>
            <form method="post" action="${list}">
              <label>Name <input name="name" required maxlength="${maxNameLength}"></label>
              <label>Amount in EUR <input name="amount" inputmode="decimal" pattern="[0-9]*[.]?[0-9]*"></label>
              ${stageSelect('appointmentscheduled')}
              <label><input type="checkbox" name="contact"> with a contact</label>
              <label><input type="checkbox" name="company"> with a company</label>
              <div class="actions"><button>Create deal</button></div>
            </form>`,
          }),
        ),
      )
      .post('/deals', async (c) => {
        const { name = '', amount = '', stage: stageId, contact, company } = await formFields(c)
        if (isStage(stageId)) {
          const links = { contact: contact !== undefined, company: company !== undefined }
          const at = Date.now()
          const history: Change[] = [{ property: 'dealstage', value: stageId, at }]
          if (isAmount(amount) && amount !== '') {
            history.push({ property: 'amount', value: amount, at })
          }
          const deal = add({ name: name.slice(0, maxNameLength), ...links, history })
          // HubSpot reports the values of a new deal like any other change.
          for (const change of history) report(deal, change)
        }
        return c.redirect(list, 303)
      })
      .post('/deals/:id{[0-9]+}', async (c) => {
        const deal = deals.get(c.req.param('id'))
        const { stage: stageId, amount, change } = await formFields(c)
        if (deal !== undefined && change === 'contact') deal.contact = !deal.contact
        if (deal !== undefined && change === 'company') deal.company = !deal.company
        if (deal !== undefined && change === 'stage' && isStage(stageId)) {
          enter(deal, 'dealstage', stageId)
        }
        if (deal !== undefined && change === 'amount' && amount !== undefined && isAmount(amount)) {
          enter(deal, 'amount', amount)
        }
        return c.redirect(`${list}#deal-${c.req.param('id')}`, 303)
      })
      .get('/crm/objects/2026-03/0-3/:id', (c) => {
        const refusal = refused(c, dealsScope)
        if (refusal !== undefined) return refusal
        const id = c.req.param('id')
        const deal = deals.get(id)
        if (deal === undefined) {
          const context = { context: { id: [id] } }
          return hubspotError(c, 404, 'OBJECT_NOT_FOUND', 'Object not found.', context)
        }
        const asked = listOf(c.req.query('associations'))
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
      .post('/crm/objects/2026-03/0-3/batch/read', async (c) => {
        const refusal = refused(c, dealsScope)
        if (refusal !== undefined) return refusal
        const body = await readBody(c, batchBody)
        if (body === undefined) return invalidInput(c)
        const { inputs, properties, propertiesWithHistory } = body
        const most = propertiesWithHistory.length > 0 ? maxInputsWithHistory : maxInputs
        if (inputs.length > most) {
          return invalidInput(c, `The maximum number of inputs of this batch request is ${most}.`)
        }
        const found = inputs.flatMap(({ id }) => deals.get(id) ?? [])
        const ids = inputs.map(({ id }) => id).filter((id) => !deals.has(id))
        const message =
          'Could not get some DEAL objects, they may be deleted or not exist. Check that ids are valid.'
        return batchAnswer(
          c,
          found.map((deal) => dealAnswer(deal, properties, propertiesWithHistory)),
          ids.length === 0
            ? []
            : [{ status: 'error', category: 'OBJECT_NOT_FOUND', message, context: { ids } }],
        )
      })
      .post('/crm/associations/2026-03/0-3/:type{0-[12]}/batch/read', async (c) => {
        const refusal = refused(c, dealsScope)
        if (refusal !== undefined) return refusal
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
      .post('/crm/objects/2026-03/0-3/search', async (c) => {
        const refusal = refused(c, dealsScope)
        if (refusal !== undefined) return refusal
        const body = await readBody(c, searchBody)
        if (body === undefined) return invalidInput(c)
        const since = Number(body.filterGroups[0]?.filters[0]?.value ?? 0)
        const changed = [...deals.values()]
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
      .get('/crm/pipelines/2026-03/deals', (c) => {
        const refusal = refused(c, dealsScope)
        if (refusal !== undefined) return refusal
        const times = asTimes(startedAt, startedAt)
        return c.json({
          results: [
            {
              id: 'default',
              label: 'Sales pipeline',
              displayOrder: 0,
              archived: false,
              ...times,
              stages: stages.map((known, displayOrder) => ({
                ...known,
                displayOrder,
                archived: false,
                writePermissions: 'CRM_PERMISSIONS_ENFORCEMENT',
                ...times,
              })),
            },
          ],
        })
      })
      .get('/crm/owners/2026-03/:id{[0-9]+}', (c) => {
        const refusal = refused(c, ownersScope)
        if (refusal !== undefined) return refusal
        if (c.req.param('id') !== standInOwner.id || c.req.query('archived') === 'true') {
          return hubspotError(c, 404, 'OBJECT_NOT_FOUND', 'Owner not found.')
        }
        return c.json({ ...standInOwner, ...asTimes(startedAt, startedAt) })
      })
  )

  /** HubSpot leaves out unknown properties, and returns some that nobody asked for. */
  function dealAnswer(
    deal: StandInDeal,
    properties: readonly string[],
    propertiesWithHistory: readonly string[],
  ) {
    const { id, name, history } = deal
    const times = asTimes(history[0]?.at ?? startedAt, changedAt(deal))
    const always = {
      createdate: times.createdAt,
      hs_lastmodifieddate: times.updatedAt,
      hs_object_id: id,
    }
    const known = {
      dealname: name,
      amount: currentOf(deal, 'amount'),
      deal_currency_code: 'EUR',
      dealstage: currentOf(deal, 'dealstage'),
      pipeline: 'default',
      hubspot_owner_id: standInOwner.id,
    }
    const asked = [...properties, ...propertiesWithHistory]
    const historyOf = (property: Change['property']) =>
      history
        .filter((change) => change.property === property)
        .reverse()
        .map(({ value, at }) => ({
          value,
          timestamp: new Date(at).toISOString(),
          sourceType: 'CRM_UI',
          sourceId: `userId:${standInHub.userId}`,
          updatedByUserId: standInHub.userId,
        }))
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
    }
  }

  function dealItem(deal: StandInDeal) {
    const current = currentOf(deal, 'dealstage')
    const amount = currentOf(deal, 'amount')
    const address = `${list}/${deal.id}`
    const label = stages.find(({ id }) => id === current)?.label ?? current
    return html`
      <li id="deal-${deal.id}">
        <h2>${deal.name}</h2>
        <p>${[label, formatAmount(amount, 'EUR')].filter(Boolean).join(' · ')}</p>
        <form method="post" action="${address}">
          ${stageSelect(current, deal.name)}
          <div class="actions"><button name="change" value="stage">Move ${deal.name}</button></div>
        </form>
        <form method="post" action="${address}">
          <label>Amount of ${deal.name} in EUR
            <input name="amount" value="${amount}" inputmode="decimal" pattern="[0-9]*[.]?[0-9]*">
          </label>
          <div class="actions">
            <button name="change" value="amount" class="secondary">Change the amount of ${deal.name}</button>
          </div>
        </form>
        <form method="post" action="${address}" class="actions">
          <button name="change" value="contact" class="secondary">${deal.contact ? 'Remove the contact' : 'Add a contact'}</button>
          <button name="change" value="company" class="secondary">${deal.company ? 'Remove the company' : 'Add a company'}</button>
        </form>
      </li>`
  }

  function stageSelect(current: string, name?: string) {
    return html`<label>Stage${name === undefined ? '' : ` of ${name}`}
      <select name="stage">${stages.map(
        ({ id, label }) =>
          html`<option value="${id}" ${id === current ? 'selected' : ''}>${label}</option>`,
      )}</select>
    </label>`
  }
}

/** What the form's pattern allows, and no longer than any real amount. */
function isAmount(text: string): boolean {
  return /^[0-9]{0,15}\.?[0-9]{0,4}$/.test(text)
}

/** The items of a parameter, such as `properties=dealname,amount`. */
function listOf(parameter: string | undefined): string[] {
  return parameter?.split(',') ?? []
}

/** Counts calls. The function returns how many more may be made; undefined if this one may not. */
function countCalls({ calls, intervalMs }: { calls: number; intervalMs: number }) {
  let made: number[] = []
  return function take(): number | undefined {
    const now = performance.now()
    made = made.filter((at) => at > now - intervalMs)
    if (made.length >= calls) return undefined
    made.push(now)
    return calls - made.length
  }
}

/** HubSpot's 429 has no category and promises no Retry-After. */
function limited(c: Context, policyName: string): Response {
  const message = `You have reached your ${policyName.toLowerCase()} limit.`
  const answer = { status: 'error', message, errorType: 'RATE_LIMIT', policyName }
  return c.json({ ...answer, correlationId: randomUUID(), requestId: randomUUID() }, 429)
}

/** An error of the CRM API. The OAuth API has errors of another form. */
export function hubspotError(
  c: Context,
  httpStatus: 400 | 401 | 403 | 404,
  category: string,
  message: string,
  more: object = {},
): Response {
  const answer = { status: 'error', message, correlationId: randomUUID(), category, ...more }
  return c.json(answer, httpStatus)
}
