import { Hono } from 'hono'
import { html } from 'hono/html'
import { changeButton, createDealsPage } from '../deals-page.ts'
import { formFields } from '../page.ts'
import {
  currentOf,
  type HubspotAccount,
  type StandInDeal,
  type StandInDeals,
  standInHub,
  standInOwners,
  standInPipelines,
} from './account.ts'
import type { createStandInWebhooks } from './webhooks.ts'

/** The page on which a person changes the stand-in's deals. */
export function createHubspotPages(
  { site, list, deals }: HubspotAccount,
  webhooks: ReturnType<typeof createStandInWebhooks>,
): Hono {
  const page = createDealsPage({
    site,
    account: 'a HubSpot account',
    currency: standInHub.currency,
    pipelines: standInPipelines,
    deals: () =>
      deals.all().map((deal) => ({
        id: deal.id,
        name: deal.name,
        amount: currentOf(deal, 'amount'),
        stage: currentOf(deal, 'dealstage'),
        deal,
      })),
    moreOf: ({ deal }) => html`${linkButton(deal, 'contact')} ${linkButton(deal, 'company')}`,
    fieldsOfNew: html`<label><input type="checkbox" name="contact"> with a contact</label>
                <label><input type="checkbox" name="company"> with a company</label>`,
    after: () => html`<details>
              <summary>Merge two deals</summary>
              <form method="post" action="${list}/merge">
                ${dealSelect('deal', 'Deal', deals)}
                ${dealSelect('into', 'Into', deals)}
                <div class="actions"><button class="secondary">Merge</button></div>
              </form>
            </details>`,
    create(shown, { contact, company }) {
      const deal = deals.add({
        ...shown,
        ownerId: standInOwners[0]?.id ?? null,
        contact: contact !== undefined,
        company: company !== undefined,
        at: Date.now(),
      })
      webhooks.created(deal)
      return deal.id
    },
    enter({ deal }, property, value) {
      const change = deals.enter(deal, property === 'stage' ? 'dealstage' : property, value)
      if (change !== undefined) webhooks.changed(deal, change)
      return change !== undefined
    },
    press({ deal }, button) {
      if (button === 'contact' || button === 'company') {
        deal[button] = !deal[button]
        webhooks.linked(deal, button, deal[button])
      }
      return false
    },
  })
  return (
    new Hono()
      .route('/', page)
      // Only digits, because the id becomes a part of a header.
      .get('/eu1/contacts/:portal/record/0-3/:id{[0-9]+}', (c) =>
        c.redirect(`${list}#deal-${c.req.param('id')}`),
      )
      .post('/deals/merge', async (c) => {
        const { deal: id = '', into = '' } = await formFields(c)
        const [primary, other] = [deals.get(into), deals.get(id)]
        if (primary !== undefined && other !== undefined && primary !== other) {
          webhooks.merged(primary, other, deals.merge(primary, other))
        }
        return c.redirect(list, 303)
      })
  )
}

function linkButton(deal: StandInDeal, kind: 'contact' | 'company') {
  return changeButton(kind, `${deal[kind] ? 'Remove' : 'Add'} ${kind}`, deal.name)
}

function dealSelect(field: string, label: string, deals: StandInDeals) {
  return html`<label>${label}
    <select name="${field}">${deals
      .all()
      .map(({ id, name }) => html`<option value="${id}" dir="auto">${name}</option>`)}</select>
  </label>`
}
