import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { html, raw } from 'hono/html'
import { policyWith } from '../../contract/page-headers.ts'
import { type Html, htmlPage } from '../http/html-page.ts'
import type { ByAddress } from '../providers/provider.ts'

// The page needs no script. It looks like the dashboard, whose styles are of another build.
const style = ['../../contract/colours.css', 'address-page.css']
  .map((file) => readFileSync(join(import.meta.dirname, file), 'utf8'))
  .join('\n')

export const addressPolicy = (appUrl: string) =>
  policyWith({
    'style-src': `'sha256-${hash('sha256', style, 'base64')}'`,
    'img-src': 'data:',
    // A browser also checks where the answer to the form leads.
    'form-action': `'self' ${appUrl}`,
  })

interface Pasting {
  /** The chat's name. */
  name: string
  state: string
  byAddress: ByAddress
  /** What was typed, and what is wrong with it. */
  address?: string
  channel?: string
  problem?: string
}

export function addressPage({
  name,
  state,
  byAddress,
  address = '',
  channel = '',
  problem,
}: Pasting) {
  const { steps, asksForName, standInAddress } = byAddress
  const hiddenState = html`<input type="hidden" name="state" value="${state}">`
  return page(
    `${problem ? 'Error: ' : ''}Connect ${name}`,
    html`
      <h1>Connect ${name}</h1>
      <p class="lead">${name} gives each webhook an address. Whoever has it can post in the channel, so Dealbell stores it encrypted.</p>
      ${
        standInAddress !== undefined &&
        html`<form method="post" class="stand-in">
          ${hiddenState}
          <p>You can try Dealbell with a stand-in for ${name}.</p>
          <button name="answer" value="stand-in" class="secondary">Use the stand-in</button>
        </form>`
      }
      <ol>${steps.map((step) => html`<li>${step}</li>`)}</ol>
      <form method="post">
        ${hiddenState}
        <div class="field">
          <label for="address">Webhook address</label>
          ${problem && html`<p id="problem" class="problem" role="alert">${problem}</p>`}
          <input id="address" name="address" value="${address}" required maxlength="2000" inputmode="url"
            autocomplete="off" autocapitalize="off" spellcheck="false"
            ${problem ? raw('aria-invalid="true" aria-describedby="problem" autofocus') : ''}>
        </div>
        ${
          asksForName &&
          html`<div class="field">
            <label for="channel">Name of the channel <span class="muted">(optional)</span></label>
            <input id="channel" name="channel" value="${channel}" dir="auto" maxlength="80" autocomplete="off" aria-describedby="name-note">
            <p id="name-note" class="muted">${name} does not tell it. Dealbell shows it beside your messages.</p>
          </div>`
        }
        <div class="actions">
          <button name="answer" value="connect">Connect</button>
          <button name="answer" value="cancel" class="secondary" formnovalidate>Cancel</button>
        </div>
      </form>
      <p class="muted">${
        asksForName ? 'Connect posts “Dealbell is connected to this channel.” there. ' : ''
      }If you disconnect later, Dealbell forgets the address. The webhook stays in ${name} until you delete it there.</p>`,
  )
}

/** The page of an authorization that cannot go on. */
export const endedPage = (name: string, appUrl: string) =>
  page(
    'Connect again',
    html`
      <h1>Connect ${name} again</h1>
      <p class="lead">This page was open for more than ten minutes, was already used, or is in a browser that did not begin here or keeps no cookies.</p>
      <p class="actions"><a href="${appUrl}">Go to the dashboard</a></p>`,
  )

export const tooLargePage = (name: string) =>
  page(
    'Error: Too much text',
    html`
      <h1>Too much text</h1>
      <p class="lead">Go back, and paste only the address of the webhook in ${name}.</p>`,
  )

const page = (title: string, main: Html) =>
  htmlPage({
    title: `${title} – Dealbell`,
    head: html`<link rel="icon" href="data:,">
    <style>${raw(style)}</style>`,
    body: html`<main>${main}</main>`,
  })
