import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'

type Html = HtmlEscapedString | Promise<HtmlEscapedString>

/** A page of a stand-in. It says that it is a stand-in. */
export function standInPage({
  title,
  notice,
  children,
  refreshS,
}: {
  title: string
  notice: string
  children: Html
  /** How often the page reloads itself, in seconds. */
  refreshS?: number
}): Html {
  return html`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="robots" content="noindex">
    ${refreshS === undefined ? '' : html`<meta http-equiv="refresh" content="${refreshS}">`}
    <title>${title}</title>
    <link rel="stylesheet" href="/sandbox/style.css" crossorigin>
  </head>
  <body>
    <header class="notice"><strong>Stand-in.</strong> ${notice}</header>
    <main>
      <h1>${title}</h1>
      ${children}
    </main>
  </body>
</html>`
}

/** The consent page: a person allows or denies access for Dealbell. */
export function consentPage({
  provider,
  account,
  wishes,
  fields,
  children,
  after,
}: {
  provider: string
  account: string
  /** The permissions that Dealbell asks for, in words. */
  wishes: readonly string[]
  /** The parameters of the request, which the form sends back. */
  fields: Readonly<Record<string, string>>
  children?: Html
  /** Shown below the form. */
  after?: Html
}): Html {
  return standInPage({
    title: `Connect Dealbell to ${provider}`,
    notice: `This is not ${provider}. It plays ${provider} on this machine, so that Dealbell can be tried without an account.`,
    children: html`
      <p>Dealbell would like to connect to the account <strong>${account}</strong> and to:</p>
      <ul>${wishes.map((wish) => html`<li>${wish}</li>`)}</ul>
      <form method="post">
        ${Object.entries(fields).map(
          ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
        )}
        ${children ?? ''}
        <div class="actions">
          <button name="answer" value="allow">Allow</button>
          <button name="answer" value="deny" class="secondary">Deny</button>
        </div>
      </form>
      ${after ?? ''}`,
  })
}

/** The page for a request whose redirect URI or client is wrong, so it must not be redirected. */
export function refusalPage(provider: string, reason: string): Html {
  return standInPage({
    title: `${provider} cannot show its consent page`,
    notice: `This is not ${provider}, but it refuses what ${provider} would refuse.`,
    children: html`<p>${reason}</p><p><a href="/">Back to the dashboard</a></p>`,
  })
}
