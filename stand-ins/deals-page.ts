import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Html } from '../server/http/html-page.ts'
import { standInPolicy } from '../server/http/safety-headers.ts'
import { chatIds } from '../server/providers/registry.ts'
import { formatAmount } from '../server/relay/decide/amount.ts'
import { type Site, standInPage } from './page.ts'

export const maxNameLength = 200

/** How the page shows a deal. */
interface ShownDeal {
  id: string
  name: string
  amount: string
  stage: string
}

export interface ShownPipeline {
  label: string
  stages: readonly { id: string; label: string }[]
}

/** The page on which a person changes the deals of a stand-in CRM. */
export function dealsPage<Deal extends ShownDeal>(
  c: Context,
  {
    site,
    list,
    notice,
    currency,
    pipelines,
    deals,
    underRow = () => '',
    moreOf,
    ofNew,
    before = '',
    after,
  }: {
    site: Site
    /** The path of the page. */
    list: string
    notice: string
    currency: string
    pipelines: readonly ShownPipeline[]
    /** The newest first. */
    deals: readonly Deal[]
    /** What else the page shows of a deal: always, and below "More". */
    underRow?: (deal: Deal) => Html | ''
    moreOf: (deal: Deal) => Html
    /** Further fields of a new deal. */
    ofNew: Html
    before?: Html | ''
    after: Html
  },
) {
  const { moved, same, edited } = c.req.query()
  // Whether a message comes is not known here: the chat may be disconnected, or no rule applies.
  const chatPage = chatIds.map((id) => site.pages[id]).find((page) => page !== undefined)
  const chat = chatPage && html`<a href="${chatPage}">Look at the chat</a>.`
  const told = (text: Html | string) => html`<p class="told" role="status">${text}</p>`
  c.header(
    'Content-Security-Policy',
    standInPolicy(site.appUrl, { inFrame: false, withScript: true }),
  )
  return c.html(
    standInPage({
      site,
      title: 'Deals',
      notice,
      head: html`<script src="/sandbox/deals.js" type="module"></script>`,
      children: html`
            <p>Move a deal to another stage. Dealbell then sends what your rules say to the chat.</p>
            ${before}
            <ul class="deals">${deals.map((deal) => dealItem(deal))}</ul>
            <details>
              <summary>New deal</summary>
              <form method="post" action="${list}">
                <label>Name <input name="name" required maxlength="${maxNameLength}"></label>
                <label>Amount in ${currency} ${amountInput('')}</label>
                <label>Stage ${stageSelect(pipelines[0]?.stages[0]?.id ?? '')}</label>
                ${ofNew}
                <div class="actions"><button>Create deal</button></div>
              </form>
            </details>
            ${after}`,
    }),
  )

  function dealItem(deal: Deal) {
    const { id, name, amount } = deal
    const address = `${list}/${id}`
    return html`
    <li id="deal-${id}">
      <form method="post" action="${address}" class="row">
        <h2>${name}</h2>
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
            html`<option value="${id}" ${id === current ? 'selected' : ''}>${label}</option>`,
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
export function isAmount(text: string | undefined): text is string {
  return text !== undefined && /^[0-9]{0,15}\.?[0-9]{0,4}$/.test(text)
}
