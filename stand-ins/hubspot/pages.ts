import { Hono } from 'hono'
import { html } from 'hono/html'
import type { Html } from '../../server/http/html-page.ts'
import { notFromAnotherSite } from '../../server/http/origin.ts'
import { standInPolicy } from '../../server/http/safety-headers.ts'
import { formatAmount } from '../../server/relay/decide/amount.ts'
import { cut } from '../../server/relay/write/text.ts'
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
  { site, list, deals }: HubspotAccount,
  webhooks: ReturnType<typeof createStandInWebhooks>,
): Hono {
  const policy = standInPolicy(site.appUrl, { inFrame: false, withScript: true })

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
      .get('/deals', (c) => {
        const { moved, same, edited } = c.req.query()
        c.header('Content-Security-Policy', policy)
        // Whether a message comes is not known here: the chat may be disconnected, or no rule applies.
        const chat = site.pages.slack && html`<a href="${site.pages.slack}">Look at the chat</a>.`
        return c.html(
          standInPage({
            site,
            title: 'Deals',
            notice,
            head: html`<script src="/sandbox/deals.js" type="module"></script>`,
            children: html`
            <p>Move a deal to another stage. Dealbell then sends what your rules say to the chat.</p>
            <ul class="deals">${deals
              .all()
              .reverse()
              .map((deal) =>
                dealItem(deal, `${list}/${deal.id}`, {
                  after:
                    deal.id === moved
                      ? html`<p class="told" role="status">Reported to Dealbell. ${chat}</p>`
                      : deal.id === same &&
                        html`<p class="told" role="status">The deal is in this stage already. Choose another one.</p>`,
                  isOpen: deal.id === edited,
                }),
              )}</ul>
            <details>
              <summary>New deal</summary>
              <form method="post" action="${list}">
                <label>Name <input name="name" required maxlength="${maxNameLength}"></label>
                <label>Amount in ${standInHub.currency} ${amountInput('')}</label>
                <label>Stage ${stageSelect('appointmentscheduled')}</label>
                <label><input type="checkbox" name="contact"> with a contact</label>
                <label><input type="checkbox" name="company"> with a company</label>
                <div class="actions"><button>Create deal</button></div>
              </form>
            </details>
            <details>
              <summary>Merge two deals</summary>
              <form method="post" action="${list}/merge">
                ${dealSelect('deal', 'Deal', deals)}
                ${dealSelect('into', 'Into', deals)}
                <div class="actions"><button class="secondary">Merge</button></div>
              </form>
            </details>`,
          }),
        )
      })
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
        if (deal !== undefined && change === 'amount' && amount !== undefined && isAmount(amount)) {
          enter(deal, 'amount', amount)
        }
        return c.redirect(`${list}${query}#deal-${id}`, 303)
      })
  )
}

/** @param after is shown below the row. */
function dealItem(
  deal: StandInDeal,
  address: string,
  { after, isOpen }: { after: Html | false; isOpen: boolean },
) {
  const { id, name } = deal
  const amount = currentOf(deal, 'amount')
  const linkButton = (kind: 'contact' | 'company') => {
    const text = `${deal[kind] ? 'Remove' : 'Add'} ${kind}`
    return html`<button name="change" value="${kind}" class="secondary" aria-label="${text} of ${name}">${text}</button>`
  }
  return html`
    <li id="deal-${id}">
      <form method="post" action="${address}" class="row">
        <h2>${name}</h2>
        <span class="muted">${formatAmount(amount, standInHub.currency)}</span>
        ${stageSelect(currentOf(deal, 'dealstage'), `Stage of ${name}`)}
        <button name="change" value="stage" aria-label="Move ${name}">Move</button>
      </form>
      ${after}
      <details ${isOpen ? 'open' : ''}>
        <summary aria-label="More of ${name}">More</summary>
        <form method="post" action="${address}" class="actions">
          <label>Amount in ${standInHub.currency} ${amountInput(amount, `Amount in ${standInHub.currency} of ${name}`)}</label>
          <button name="change" value="amount" class="secondary" aria-label="Change the amount of ${name}">Change</button>
        </form>
        <form method="post" action="${address}" class="actions">
          ${linkButton('contact')} ${linkButton('company')}
        </form>
      </details>
    </li>`
}

/** @param name of the field, if the text of its label is not enough. */
function amountInput(value: string, name?: string) {
  return html`<input name="amount" value="${value}" inputmode="decimal" pattern="[0-9]*[.]?[0-9]*"
    ${name && html`aria-label="${name}"`}>`
}

function stageSelect(current: string, name?: string) {
  return html`<select name="stage" ${name && html`aria-label="${name}"`}>${standInPipelines.map(
    ({ label, stages }) =>
      html`<optgroup label="${label}">${stages.map(
        ({ id, label }) =>
          html`<option value="${id}" ${id === current ? 'selected' : ''}>${label}</option>`,
      )}</optgroup>`,
  )}</select>`
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
