import type { Context } from 'hono'
import { html } from 'hono/html'
import { ApiError } from '../server/http/errors.ts'
import { type Html, htmlPage } from '../server/http/html-page.ts'
import type { ProviderSettings } from '../server/providers/calls.ts'
import { isCrmId, type ProviderId, providerIds, registry } from '../server/providers/registry.ts'

/** What all pages of one stand-in have in common. */
export interface Site {
  id: ProviderId
  /** The origin of the dashboard. */
  appUrl: string
  /** The path of the first page of each stand-in. */
  pages: Partial<Record<ProviderId, string>>
}

/** What the stand-in of a provider with a consent page is made with. */
export interface StandInOptions {
  site: Site
  settings: ProviderSettings
  /** The origins of the dashboard and, for the public, of this server. */
  appUrl: string
  apiUrl: string
}

/** A page of a stand-in. It says that it is a stand-in, and leads to the others and to the dashboard. */
export function standInPage({
  site,
  title,
  notice,
  head,
  children,
}: {
  /** Undefined for the form in the frame of /contact. */
  site?: Site
  title: string
  notice: string
  /** Further elements of the page's head. */
  head?: Html
  children: Html
}): Html {
  return htmlPage({
    title,
    head: html`<link rel="stylesheet" href="/sandbox/style.css" crossorigin>
    ${site && html`<link rel="icon" href="/sandbox/${site.id}/icon.svg" type="image/svg+xml">`}
    ${head}`,
    body: html`<header aria-label="Stand-in">
      <p class="notice"><strong>Stand-in.</strong> ${notice}</p>
    </header>
    ${site && navigation(site)}
    <main aria-labelledby="title">
      <h1 id="title">${title}</h1>
      ${children}
    </main>`,
  })
}

function navigation({ appUrl, pages }: Site): Html {
  return html`<nav aria-label="Pages">
      <a href="${appUrl}">Dealbell</a>
      ${providerIds.map((id) => {
        const name = isCrmId(id) ? 'Deals' : registry[id].name
        return pages[id] && html`· <a href="${pages[id]}">${name}</a> `
      })}
    </nav>`
}

/** The text fields of a form body. Other fields, such as files, are ignored. */
export async function formFields(c: Context): Promise<Record<string, string>> {
  const body: object = await c.req.parseBody().catch(() => {
    throw new ApiError(400, 'invalid_body', 'The body is not a form.')
  })
  return Object.fromEntries(Object.entries(body).filter(([, value]) => typeof value === 'string'))
}
