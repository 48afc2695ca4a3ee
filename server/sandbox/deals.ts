import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { type Context, Hono } from 'hono'
import { html } from 'hono/html'
import * as v from 'valibot'
import { hubSpotSignature } from '../providers/hubspot/signature.ts'
import type { ProviderSettings } from '../providers/provider.ts'
import { formatAmount } from '../relay/amount.ts'
import { formFields } from './form.ts'
import { standInHub } from './hub.ts'
import { standInPage } from './page.ts'

interface StandInDeal {
  id: string
  name: string
  amount: string
  contact: boolean
  company: boolean
  /** The oldest first. */
  history: StageChange[]
}

interface StageChange {
  stageId: string
  /** Milliseconds since 1970. */
  at: number
}

interface StandInWebhook {
  deal: StandInDeal
  change: StageChange
  eventId: number
}

/** Anyone can create deals, so the oldest make room for new ones. */
const maxDeals = 500
const maxChanges = 50
const maxNameLength = 200
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

const inputsBody = v.object({ inputs: v.array(v.object({ id: v.string() })) })
const searchBody = v.object({
  filterGroups: v.array(v.object({ filters: v.array(v.object({ value: v.string() })) })),
  limit: v.pipe(v.number(), v.maxValue(200)),
  after: v.optional(v.string()),
})

/** The ids of a batch; undefined if there are more than HubSpot takes. */
async function readInputs(c: Context, most: number): Promise<string[] | undefined> {
  const { inputs } = v.parse(inputsBody, await c.req.json())
  return inputs.length > most ? undefined : inputs.map(({ id }) => id)
}

const tooManyInputs = (c: Context) =>
  hubspotError(c, 400, 'VALIDATION_ERROR', 'The batch has too many inputs.')

/** HubSpot answers 207 if something was not found. */
function batchAnswer(c: Context, results: readonly object[], isComplete: boolean): Response {
  const now = new Date().toISOString()
  const answer = { status: 'COMPLETE', results, startedAt: now, completedAt: now }
  return c.json(answer, isComplete ? 200 : 207)
}

const changedAt = ({ history }: StandInDeal) => history.at(-1)?.at ?? 0

const asTimes = (createdAt: number, updatedAt: number) => ({
  createdAt: new Date(createdAt).toISOString(),
  updatedAt: new Date(updatedAt).toISOString(),
})

const notice =
  'This is not HubSpot. It plays a HubSpot account on this machine: what you change here is told to Dealbell as HubSpot would.'

/** The stand-in's deals: a page to change them, the API that Dealbell reads, and the webhooks. */
export function createStandInDeals({
  settings,
  appUrl,
  isAllowed,
}: {
  settings: ProviderSettings
  appUrl: string
  /** Whether an access token is valid. */
  isAllowed: (accessToken: string) => boolean
}): Hono {
  const startedAt = Date.now()
  const deals = new Map<string, StandInDeal>()
  let nextId = 9_001
  let nextEventId = 1
  /** The oldest first. */
  const waiting: StandInWebhook[] = []
  let sending = 0

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
    const yesterday = { stageId: 'appointmentscheduled', at: startedAt - 86_400_000 }
    add({ name, amount, contact, company, history: [yesterday] })
  }

  /** Reports a change soon. If too many changes wait, the oldest is never reported. */
  function report(deal: StandInDeal, change: StageChange): void {
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
  async function sendWebhook({ deal, change: { stageId, at }, eventId }: StandInWebhook) {
    for (let attempt = 0; attempt < 10; attempt++) {
      const body = Buffer.from(
        JSON.stringify([
          {
            eventId,
            subscriptionId: 2_000_001,
            portalId: standInHub.hubId,
            appId: standInHub.appId,
            occurredAt: at,
            subscriptionType: 'object.propertyChange',
            attemptNumber: attempt,
            objectId: Number(deal.id),
            objectTypeId: '0-3',
            propertyName: 'dealstage',
            propertyValue: stageId,
            changeSource: 'CRM_UI',
          },
        ]),
      )
      const timestamp = String(Date.now())
      // Signed for the public address, but sent directly to this server and not through a proxy.
      const url = `${appUrl}/webhooks/hubspot`
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
        if (answer.status < 500 && answer.status !== 429) return
      } catch {
        // No answer: sent again below.
      }
      await delay(1_000 * 2 ** attempt)
    }
  }

  function enter(deal: StandInDeal, stageId: string): void {
    const change = { stageId, at: Date.now() }
    deal.history.push(change)
    if (deal.history.length > maxChanges) deal.history.shift()
    report(deal, change)
  }

  function isStage(id: string | undefined): id is string {
    return stages.some((known) => known.id === id)
  }

  function notAllowed(c: Context): Response | undefined {
    const token = c.req.header('Authorization')?.match(/^Bearer (.+)$/)?.[1]
    if (token !== undefined && isAllowed(token)) return undefined
    return hubspotError(c, 401, 'INVALID_AUTHENTICATION', 'The access token is not valid.')
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
          const change = { stageId, at: Date.now() }
          const deal = add({
            name: name.slice(0, maxNameLength),
            amount: isAmount(amount) ? amount : '',
            ...links,
            history: [change],
          })
          // HubSpot reports the stage of a new deal like any other change.
          report(deal, change)
        }
        return c.redirect(list, 303)
      })
      .post('/deals/:id{[0-9]+}', async (c) => {
        const deal = deals.get(c.req.param('id'))
        const { stage: stageId, change } = await formFields(c)
        if (deal !== undefined && change === 'contact') deal.contact = !deal.contact
        if (deal !== undefined && change === 'company') deal.company = !deal.company
        if (deal !== undefined && change === 'stage' && isStage(stageId)) {
          // Saving the current stage changes nothing, and HubSpot reports nothing.
          if (deal.history.at(-1)?.stageId !== stageId) enter(deal, stageId)
        }
        return c.redirect(`${list}#deal-${c.req.param('id')}`, 303)
      })
      .get('/crm/objects/2026-03/0-3/:id', (c) => {
        const refused = notAllowed(c)
        if (refused !== undefined) return refused
        const deal = deals.get(c.req.param('id'))
        if (deal === undefined) return hubspotError(c, 404, 'OBJECT_NOT_FOUND', 'Object not found.')
        const linked = (one: boolean, id: string, type: string) =>
          one ? { results: [{ id, type }] } : undefined
        const contacts = linked(deal.contact, '301', 'deal_to_contact')
        const companies = linked(deal.company, '501', 'deal_to_company')
        return c.json({
          ...dealAnswer(deal),
          ...((contacts || companies) && { associations: { contacts, companies } }),
        })
      })
      .post('/crm/objects/2026-03/0-3/batch/read', async (c) => {
        const refused = notAllowed(c)
        if (refused !== undefined) return refused
        const inputs = await readInputs(c, 50)
        if (inputs === undefined) return tooManyInputs(c)
        const found = inputs.flatMap((id) => deals.get(id) ?? [])
        return batchAnswer(c, found.map(dealAnswer), found.length === inputs.length)
      })
      .post('/crm/associations/2026-03/0-3/:type{0-[12]}/batch/read', async (c) => {
        const refused = notAllowed(c)
        if (refused !== undefined) return refused
        const inputs = await readInputs(c, 100)
        if (inputs === undefined) return tooManyInputs(c)
        const [has, toObjectId, typeId] =
          c.req.param('type') === '0-1'
            ? [(deal: StandInDeal) => deal.contact, '301', 3]
            : [(deal: StandInDeal) => deal.company, '501', 5]
        const linked = inputs.flatMap((id) => deals.get(id) ?? []).filter(has)
        const results = linked.map(({ id }) => ({
          from: { id },
          to: [{ toObjectId, associationTypes: [{ category: 'HUBSPOT_DEFINED', typeId }] }],
        }))
        return batchAnswer(c, results, linked.length === inputs.length)
      })
      .post('/crm/objects/2026-03/0-3/search', async (c) => {
        const refused = notAllowed(c)
        if (refused !== undefined) return refused
        const { filterGroups, limit, after } = v.parse(searchBody, await c.req.json())
        const since = Number(filterGroups[0]?.filters[0]?.value ?? 0)
        const changed = [...deals.values()]
          .filter((deal) => changedAt(deal) >= since)
          .sort((a, b) => changedAt(a) - changedAt(b))
        const start = Number(after ?? 0)
        const end = start + limit
        return c.json({
          total: changed.length,
          results: changed.slice(start, end).map((deal) => ({
            ...dealAnswer(deal),
            propertiesWithHistory: undefined,
          })),
          ...(end < changed.length && { paging: { next: { after: String(end) } } }),
        })
      })
      .get('/crm/pipelines/2026-03/deals', (c) => {
        const refused = notAllowed(c)
        if (refused !== undefined) return refused
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
        const refused = notAllowed(c)
        if (refused !== undefined) return refused
        if (c.req.param('id') !== standInOwner.id) {
          return hubspotError(c, 404, 'OBJECT_NOT_FOUND', 'Owner not found.')
        }
        return c.json({ ...standInOwner, ...asTimes(startedAt, startedAt) })
      })
  )

  function dealAnswer(deal: StandInDeal) {
    const { id, name, amount, history } = deal
    return {
      id,
      properties: {
        dealname: name,
        amount,
        deal_currency_code: 'EUR',
        dealstage: history.at(-1)?.stageId ?? null,
        pipeline: 'default',
        hubspot_owner_id: standInOwner.id,
        hs_lastmodifieddate: new Date(changedAt(deal)).toISOString(),
      },
      propertiesWithHistory: {
        dealstage: history.toReversed().map(({ stageId, at }) => ({
          value: stageId,
          timestamp: new Date(at).toISOString(),
          sourceType: 'CRM_UI',
        })),
      },
      ...asTimes(history[0]?.at ?? startedAt, changedAt(deal)),
      archived: false,
    }
  }

  function dealItem(deal: StandInDeal) {
    const current = deal.history.at(-1)?.stageId ?? ''
    const address = `${list}/${deal.id}`
    const label = stages.find(({ id }) => id === current)?.label ?? current
    return html`
      <li id="deal-${deal.id}">
        <h2>${deal.name}</h2>
        <p>${[label, formatAmount(deal.amount, 'EUR')].filter(Boolean).join(' · ')}</p>
        <form method="post" action="${address}">
          ${stageSelect(current, deal.name)}
          <div class="actions"><button name="change" value="stage">Move ${deal.name}</button></div>
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

function hubspotError(
  c: Context,
  status: 400 | 401 | 404,
  category: string,
  message: string,
): Response {
  return c.json({ status: 'error', message, category, correlationId: randomUUID() }, status)
}
