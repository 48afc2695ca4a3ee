import { html } from 'hono/html'
import * as v from 'valibot'
import type { Html } from '../../server/http/html-page.ts'
import type { StandInChat } from '../by-address.ts'

const message = v.strictObject({
  text: v.pipe(v.string(), v.nonEmpty(), v.maxLength(16_383)),
  channel: v.optional(v.string()),
})

const error = (status: number, name: string, message: string) => {
  const id = `web.incoming_webhook.${name}.app_error`
  return { status, error: { id, message, detailed_error: '', status_code: status } }
}

/** A channel with a webhook. It reads the markdown that Dealbell writes, and shows all else as it is. */
export const standInMattermost: StandInChat = {
  webhook: '/hooks/salesstandinsalesstandinsa',
  read({ body }) {
    const { success, output } = v.safeParse(message, body)
    if (!success) return error(400, 'parse', 'Unable to parse incoming data.')
    if (output.channel !== undefined) return error(404, 'channel', "Couldn't find the channel.")
    const paragraphs = withMentions(output.text).split(/\n{2,}/)
    return {
      shown: html`${paragraphs.map((each) => html`<p class="lines">${shownText(each)}</p>`)}`,
    }
  },
  accepted: { status: 200, body: 'ok' },
  unknown: error(400, 'unheard', 'Unheard.').error,
  deleted: error(400, 'invalid', 'Invalid webhook.'),
}

/** As Mattermost, it also understands the mentions of Slack. */
const withMentions = (text: string) => text.replace(/<!(channel|here|all)>/g, '@$1')

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"' }
const literal = (text: string) =>
  text.replace(/&(?:#(\d{1,5})|(\w{2,4}));/g, (all, code?: string, name = '') =>
    code === undefined ? (named[name] ?? all) : String.fromCharCode(Number(code)),
  )

const markup =
  /\*\*([^*]+)\*\*|\[([^\]]+)\]\((https?:[^()\s]+)\)|(?<!\w)_([^_]+)_(?!\w)|(?<!\w)@([a-z][\w.-]*)|https?:\/\/[^\s<>()]+/i

function shownText(text: string): Html {
  const found = markup.exec(text)
  if (found === null) return html`${literal(text)}`
  const [all, strong, label, url, small, name] = found
  const shown = () => {
    if (strong !== undefined) return html`<strong>${shownText(strong)}</strong>`
    if (label !== undefined) return html`<a href="${url}">${shownText(label)}</a>`
    if (small !== undefined) return html`<em>${shownText(small)}</em>`
    return name === undefined ? html`<a href="${all}">${all}</a>` : html`<strong>@${name}</strong>`
  }
  const rest = text.slice(found.index + all.length)
  return html`${literal(text.slice(0, found.index))}${shown()}${shownText(rest)}`
}
