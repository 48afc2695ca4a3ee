import { Hono } from 'hono'
import { html } from 'hono/html'
import { notFromAnotherSite } from '../../server/http/origin.ts'
import { cut } from '../../server/relay/write/text.ts'
import { changeButton, dealsPage, isAmount, maxNameLength } from '../deals-page.ts'
import { formFields } from '../page.ts'
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

const notice =
  'This is not HubSpot. It plays a HubSpot account on this machine: what you change here is told to Dealbell as HubSpot would.'

const stages = standInPipelines.flatMap(({ stages }) => stages)

/** The page on which a person changes the stand-in's deals. */
export function createDealsPage(
  { site, list, deals }: HubspotAccount,
  webhooks: ReturnType<typeof createStandInWebhooks>,
): Hono {
  /** Changes a property, and reports it. @returns whether it had another value. */
  function enter(deal: StandInDeal, property: Change['property'], value: string): boolean {
    const change = deals.enter(deal, property, value)
    if (change !== undefined) webhooks.changed(deal, change)
    return change !== undefined
  }

  return (
    new Hono()
      .get('/', (c) => c.redirect(list))
      // Only digits, because the id becomes a part of a header.
      .get('/eu1/contacts/:portal/record/0-3/:id{[0-9]+}', (c) =>
        c.redirect(`${list}#deal-${c.req.param('id')}`),
      )
      .get('/deals', (c) =>
        dealsPage(c, {
          site,
          list,
          notice,
          currency: standInHub.currency,
          pipelines: standInPipelines,
          deals: deals
            .all()
            .reverse()
            .map((deal) => ({
              ...deal,
              amount: currentOf(deal, 'amount'),
              stage: currentOf(deal, 'dealstage'),
            })),
          moreOf: (deal) => html`${linkButton(deal, 'contact')} ${linkButton(deal, 'company')}`,
          ofNew: html`<label><input type="checkbox" name="contact"> with a contact</label>
                <label><input type="checkbox" name="company"> with a company</label>`,
          after: html`<details>
              <summary>Merge two deals</summary>
              <form method="post" action="${list}/merge">
                ${dealSelect('deal', 'Deal', deals)}
                ${dealSelect('into', 'Into', deals)}
                <div class="actions"><button class="secondary">Merge</button></div>
              </form>
            </details>`,
        }),
      )
      .post('/deals', notFromAnotherSite, async (c) => {
        const { name = '', amount = '', stage, contact, company } = await formFields(c)
        if (!isStage(stage)) return c.redirect(list, 303)
        const deal = deals.add({
          name: cut(name, maxNameLength),
          ownerId: standInOwners[0]?.id ?? null,
          contact: contact !== undefined,
          company: company !== undefined,
          stage,
          amount: isAmount(amount) ? amount : '',
          at: Date.now(),
        })
        webhooks.created(deal)
        return c.redirect(`${list}#deal-${deal.id}`, 303)
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
        const id = c.req.param('id')
        const deal = deals.get(id)
        const { stage, amount, change } = await formFields(c)
        let query = `?edited=${id}`
        if (deal !== undefined && (change === 'contact' || change === 'company')) {
          deal[change] = !deal[change]
          webhooks.linked(deal, change, deal[change])
        }
        if (deal !== undefined && change === 'stage' && isStage(stage)) {
          query = `?${enter(deal, 'dealstage', stage) ? 'moved' : 'same'}=${id}`
        }
        if (deal !== undefined && change === 'amount' && isAmount(amount)) {
          enter(deal, 'amount', amount)
        }
        return c.redirect(`${list}${query}#deal-${id}`, 303)
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
      .map(({ id, name }) => html`<option value="${id}">${name}</option>`)}</select>
  </label>`
}

function isStage(id: string | undefined): id is string {
  return stages.some((known) => known.id === id)
}
