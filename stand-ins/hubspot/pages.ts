import { Hono } from 'hono'
import { html } from 'hono/html'
import { notFromAnotherSite } from '../../server/http/origin.ts'
import { formatAmount } from '../../server/relay/write/amount.ts'
import { formFields, standInPage } from '../page.ts'
import {
  type Change,
  currentOf,
  type HubspotAccount,
  type StandInDeal,
  type StandInDeals,
  standInHub,
  standInOwners,
  standInPipelines,
} from './account.ts'
import type { createStandInWebhooks } from './webhooks.ts'

const maxNameLength = 200

const notice =
  'This is not HubSpot. It plays a HubSpot account on this machine: what you change here is told to Dealbell as HubSpot would.'

const stages = standInPipelines.flatMap(({ stages }) => stages)

/** The page on which a person changes the stand-in's deals. */
export function createDealsPage(
  { list, deals }: HubspotAccount,
  webhooks: ReturnType<typeof createStandInWebhooks>,
): Hono {
  function enter(deal: StandInDeal, property: Change['property'], value: string): void {
    const change = deals.enter(deal, property, value)
    if (change !== undefined) webhooks.changed(deal, change)
  }

  return (
    new Hono()
      .get('/', (c) => c.redirect(list))
      // Only digits, because the id becomes a part of a header.
      .get('/eu1/contacts/:portal/record/0-3/:id{[0-9]+}', (c) =>
        c.redirect(`${list}#deal-${c.req.param('id')}`),
      )
      .get('/deals', (c) =>
        c.html(
          standInPage({
            title: 'Deals',
            notice,
            children: html`
            <p>Move a deal to another stage, and see what arrives in the
              <a href="/sandbox/slack">stand-in Slack</a>.</p>
            <ul class="records">${deals
              .all()
              .reverse()
              .map((deal) => dealItem(deal, `${list}/${deal.id}`))}</ul>
            <h2>New deal</h2>
            <form method="post" action="${list}">
              <label>Name <input name="name" required maxlength="${maxNameLength}"></label>
              <label>Amount in ${standInHub.currency} <input name="amount" inputmode="decimal" pattern="[0-9]*[.]?[0-9]*"></label>
              ${stageSelect('appointmentscheduled')}
              <label><input type="checkbox" name="contact"> with a contact</label>
              <label><input type="checkbox" name="company"> with a company</label>
              <div class="actions"><button>Create deal</button></div>
            </form>
            <h2>Merge</h2>
            <form method="post" action="${list}/merge">
              ${dealSelect('deal', 'Deal', deals)}
              ${dealSelect('into', 'Into', deals)}
              <div class="actions"><button class="secondary">Merge</button></div>
            </form>`,
          }),
        ),
      )
      .post('/deals', notFromAnotherSite, async (c) => {
        const { name = '', amount = '', stage, contact, company } = await formFields(c)
        if (isStage(stage)) {
          const deal = deals.add({
            name: name.slice(0, maxNameLength),
            ownerId: standInOwners[0]?.id ?? null,
            contact: contact !== undefined,
            company: company !== undefined,
            stage,
            amount: isAmount(amount) ? amount : '',
            at: Date.now(),
          })
          webhooks.created(deal)
        }
        return c.redirect(list, 303)
      })
      .post('/deals/merge', notFromAnotherSite, async (c) => {
        const { deal: id = '', into = '' } = await formFields(c)
        const [primary, other] = [deals.get(into), deals.get(id)]
        if (primary !== undefined && other !== undefined && primary !== other) {
          webhooks.merged(primary, other, deals.merge(primary, other))
        }
        return c.redirect(list, 303)
      })
      .post('/deals/:id{[0-9]+}', notFromAnotherSite, async (c) => {
        const deal = deals.get(c.req.param('id'))
        const { stage, amount, change } = await formFields(c)
        if (deal !== undefined && (change === 'contact' || change === 'company')) {
          deal[change] = !deal[change]
          webhooks.linked(deal, change, deal[change])
        }
        if (deal !== undefined && change === 'stage' && isStage(stage)) {
          enter(deal, 'dealstage', stage)
        }
        if (deal !== undefined && change === 'amount' && amount !== undefined && isAmount(amount)) {
          enter(deal, 'amount', amount)
        }
        return c.redirect(`${list}#deal-${c.req.param('id')}`, 303)
      })
  )
}

function dealItem(deal: StandInDeal, address: string) {
  const current = currentOf(deal, 'dealstage')
  const amount = currentOf(deal, 'amount')
  const label = stages.find(({ id }) => id === current)?.label ?? current
  return html`
    <li id="deal-${deal.id}">
      <h2>${deal.name}</h2>
      <p>${[label, formatAmount(amount, standInHub.currency)].filter(Boolean).join(' · ')}</p>
      <form method="post" action="${address}">
        ${stageSelect(current, deal.name)}
        <div class="actions"><button name="change" value="stage">Move ${deal.name}</button></div>
      </form>
      <form method="post" action="${address}">
        <label>Amount of ${deal.name} in ${standInHub.currency}
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
    <select name="stage">${standInPipelines.map(
      ({ label, stages }) =>
        html`<optgroup label="${label}">${stages.map(
          ({ id, label }) =>
            html`<option value="${id}" ${id === current ? 'selected' : ''}>${label}</option>`,
        )}</optgroup>`,
    )}</select>
  </label>`
}

function dealSelect(field: string, label: string, deals: StandInDeals) {
  return html`<label>${label}
    <select name="${field}">${deals
      .all()
      .map(({ id, name }) => html`<option value="${id}">${name}</option>`)}</select>
  </label>`
}

function isStage(id: string | undefined): id is string {
  return stages.some((known) => known.id === id)
}

/** What the form's pattern allows, and no longer than any real amount. */
function isAmount(text: string): boolean {
  return /^[0-9]{0,15}\.?[0-9]{0,4}$/.test(text)
}
