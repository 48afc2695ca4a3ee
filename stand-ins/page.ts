import type { Context } from 'hono'
import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import { ApiError } from '../server/http/errors.ts'

export type Html = HtmlEscapedString | Promise<HtmlEscapedString>

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

/** The text fields of a form body. Other fields, such as files, are ignored. */
export async function formFields(c: Context): Promise<Record<string, string>> {
  const body: object = await c.req.parseBody().catch(() => {
    throw new ApiError(400, 'invalid_body', 'The body is not a form.')
  })
  return Object.fromEntries(Object.entries(body).filter(([, value]) => typeof value === 'string'))
}
