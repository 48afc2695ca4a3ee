import { Hono } from 'hono'
import { html } from 'hono/html'
import type { Html } from '../server/http/html-page.ts'
import { standInPolicy } from '../server/http/safety-headers.ts'
import { cut } from '../server/providers/foreign-text.ts'
import { chatIds, registry } from '../server/providers/registry.ts'
import { formatAmount } from '../server/relay/decide/amount.ts'
import { formFields, type Site, standInPage } from './page.ts'

const maxNameLength = 200

/** How the page shows a deal. */
interface ShownDeal {
  id: string
  name: string
  amount: string
  stage: string
}

interface ShownPipeline {
  label: string
  stages: readonly { id: string; label: string }[]
}

/** What differs between the pages of the stand-in CRMs. */
interface DealsPage<Deal extends ShownDeal> {
  site: Site
  /** What the stand-in plays. */
  account: string
  currency: string
  pipelines: readonly ShownPipeline[]
  /** The oldest first. */
  deals: () => readonly Deal[]
  /** What else the page shows of a deal: always, and below "More". */
  underRow?: (deal: Deal) => Html
  moreOf: (deal: Deal) => Html
  /** Further fields of a new deal. */
  fieldsOfNew: Html
  after: () => Html
  /** Makes a deal. @returns its id. */
  create: (deal: Omit<ShownDeal, 'id'>, more: Readonly<Record<string, string>>) => string
  /** Changes a deal. @returns whether it had another value. */
  enter: (deal: Deal, property: 'stage' | 'amount', value: string) => boolean
  /** Does what a further button says. @returns whether the page says that it was reported. */
  press: (deal: Deal, button: string) => boolean
}

/** The page on which a person changes the deals of a stand-in CRM. */
export function createDealsPage<Deal extends ShownDeal>({
  site,
  account,
  currency,
  pipelines,
  deals,
  underRow = () => html``,
  moreOf,
  fieldsOfNew,
  after,
  create,
  enter,
  press,
}: DealsPage<Deal>): Hono {
  const list = `/sandbox/${site.id}/deals`
  const { name } = registry[site.id]
  const notice = `This is not ${name}. It plays ${account} on this machine: what you change here is told to Dealbell as ${name} would.`
  const policy = standInPolicy(site.appUrl, { inFrame: false, withScript: true })
  const chatPage = chatIds.map((id) => site.pages[id]).find((page) => page !== undefined)
  // Whether a message comes is not known here: the chat may be disconnected, or no rule applies.
  const chat = chatPage && html`<a href="${chatPage}">Look at the chat</a>.`
  const told = (text: Html | string) => html`<p class="told" role="status">${text}</p>`
  const isStage = (text: string | undefined): text is string =>
    pipelines.some(({ stages }) => stages.some(({ id }) => id === text))

  return new Hono()
    .get('/', (c) => c.redirect(list))
    .get('/deals', (c) => {
      c.header('Content-Security-Policy', policy)
      return c.html(
        standInPage({
          site,
          title: 'Deals',
          notice,
          head: html`<script data-cfasync="false" src="/sandbox/deals.js" type="module"></script>`,
          children: html`
            <p>Move a deal to another stage. Dealbell then sends what your rules say to the chat.</p>
            <ul class="deals">${deals()
              .toReversed()
              .map((deal) => dealItem(deal, c.req.query()))}</ul>
            <details>
              <summary>New deal</summary>
              <form method="post" action="${list}">
                <label>Name <input name="name" dir="auto" required maxlength="${maxNameLength}"></label>
                <label>Amount in ${currency} ${amountInput('')}</label>
                <label>Stage ${stageSelect(pipelines[0]?.stages[0]?.id ?? '')}</label>
                ${fieldsOfNew}
                <div class="actions"><button>Create deal</button></div>
              </form>
            </details>
            ${after()}`,
        }),
      )
    })
    .post('/deals', async (c) => {
      const { name = '', amount, stage, ...more } = await formFields(c)
      if (!isStage(stage)) return c.redirect(list, 303)
      const deal = { name: cut(name, maxNameLength), amount: isAmount(amount) ? amount : '', stage }
      return c.redirect(`${list}#deal-${create(deal, more)}`, 303)
    })
    .post('/deals/:id{[0-9]+}', async (c) => {
      const id = c.req.param('id')
      const deal = deals().find((known) => known.id === id)
      const { stage, amount, change = '' } = await formFields(c)
      let what = 'edited'
      if (deal !== undefined && change === 'stage') {
        if (isStage(stage)) what = enter(deal, 'stage', stage) ? 'moved' : 'same'
      } else if (deal !== undefined && change === 'amount') {
        if (isAmount(amount)) enter(deal, 'amount', amount)
      } else if (deal !== undefined && press(deal, change)) what = 'moved'
      return c.redirect(`${list}?${what}=${id}#deal-${id}`, 303)
    })

  function dealItem(deal: Deal, { moved, same, edited }: Record<string, string>) {
    const { id, name, amount } = deal
    const address = `${list}/${id}`
    return html`
    <li id="deal-${id}">
      <form method="post" action="${address}" class="row">
        <h2><bdi>${name}</bdi></h2>
        <span class="muted">${formatAmount(amount, currency)}</span>
        ${stageSelect(deal.stage, `Stage of ${name}`)}
        <button name="change" value="stage" aria-label="Move ${name}">Move</button>
      </form>
      ${underRow(deal)}
      ${
        id === moved
          ? told(html`Reported to Dealbell. ${chat}`)
          : id === same && told('The deal is in this stage already. Choose another one.')
      }
      <details ${id === edited ? 'open' : ''}>
        <summary aria-label="More of ${name}">More</summary>
        <form method="post" action="${address}" class="actions">
          <label>Amount in ${currency} ${amountInput(amount, `Amount in ${currency} of ${name}`)}</label>
          <button name="change" value="amount" class="secondary" aria-label="Change the amount of ${name}">Change</button>
        </form>
        <form method="post" action="${address}" class="actions">
          ${moreOf(deal)}
        </form>
      </details>
    </li>`
  }

  function stageSelect(current: string, name?: string) {
    return html`<select name="stage" ${name && html`aria-label="${name}"`}>${pipelines.map(
      ({ label, stages }) =>
        html`<optgroup label="${label}">${stages.map(
          ({ id, label }) =>
            html`<option value="${id}" dir="auto" ${id === current ? 'selected' : ''}>${label}</option>`,
        )}</optgroup>`,
    )}</select>`
  }
}

/** A button that changes a deal. */
export const changeButton = (change: string, text: string, dealName: string) =>
  html`<button name="change" value="${change}" class="secondary" aria-label="${text} of ${dealName}">${text}</button>`

/** @param name of the field, if the text of its label is not enough. */
function amountInput(value: string, name?: string) {
  return html`<input name="amount" value="${value}" inputmode="decimal" pattern="[0-9]*[.]?[0-9]*"
    ${name && html`aria-label="${name}"`}>`
}

/** What the form's pattern allows, and no longer than any real amount. */
function isAmount(text: string | undefined): text is string {
  return text !== undefined && /^[0-9]{0,15}\.?[0-9]{0,4}$/.test(text)
}
