import { html } from 'hono/html'
import * as v from 'valibot'
import type { Html } from '../../server/http/html-page.ts'
import type { StandInChat } from '../by-address.ts'

const textParagraph = v.strictObject({
  textParagraph: v.strictObject({ text: v.pipe(v.string(), v.nonEmpty()) }),
})
const message = v.strictObject({
  fallbackText: v.optional(v.string()),
  cardsV2: v.strictTuple([
    v.strictObject({
      cardId: v.string(),
      card: v.strictObject({
        sections: v.strictTuple([v.strictObject({ widgets: v.array(textParagraph) })]),
      }),
    }),
  ]),
})

const error = (code: number, status: string, message: string) => ({
  status: code,
  error: { error: { code, message, status } },
})
const longestMessage = 32_000

/** A space with a webhook. It takes each `requestId` once. */
export const standInGoogleChat: StandInChat = {
  webhook: '/v1/spaces/sales/messages?key=stand-in&token=stand-in',
  read({ query, body }) {
    const { success, output } = v.safeParse(message, body)
    if (!success || Buffer.byteLength(JSON.stringify(body)) > longestMessage) {
      return error(400, 'INVALID_ARGUMENT', 'The message is no card, or too long.')
    }
    const [{ card }] = output.cardsV2
    const [{ widgets }] = card.sections
    const shown = html`${widgets.map(
      ({ textParagraph }) => html`<p class="lines">${shownText(textParagraph.text)}</p>`,
    )}`
    return { shown, ...(query.requestId !== undefined && { id: query.requestId }) }
  },
  accepted: {
    status: 200,
    body: { name: 'spaces/sales/messages/1', thread: { name: 'spaces/sales/threads/1' } },
  },
  unknown: error(400, 'UNHEARD', 'Unheard.').error,
  deleted: error(404, 'NOT_FOUND', 'Requested entity was not found.'),
}

const characters: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', amp: '&' }
const literal = (text: string) =>
  text.replace(/&(lt|gt|quot|amp);/g, (_, name: string) => characters[name] ?? '')

/** Shows the tags that a card knows. All else is text. */
function shownText(text: string): Html {
  const tag = /<(b|font|a)(?: (?:href|color)="([^"]*)")?>([\s\S]*?)<\/\1>|<br>/
  const found = tag.exec(text)
  if (found === null) return html`${literal(text)}`
  const [all, name, value = '', inner = ''] = found
  const shown = shownText(inner)
  return html`${literal(text.slice(0, found.index))}${
    name === undefined
      ? html`<br>`
      : name === 'a'
        ? html`<a href="${literal(value)}">${shown}</a>`
        : name === 'b'
          ? html`<strong>${shown}</strong>`
          : html`<span class="muted">${shown}</span>`
  }${shownText(text.slice(found.index + all.length))}`
}
