import { html } from 'hono/html'
import * as v from 'valibot'
import type { Html } from '../../server/http/html-page.ts'
import type { StandInChat } from '../by-address.ts'
import { shownTime } from '../channel-page.ts'

const text = (most: number) => v.pipe(v.string(), v.nonEmpty(), v.maxLength(most))
const embed = v.strictObject({
  description: text(4_096),
  footer: v.optional(v.strictObject({ text: text(2_048) })),
})
const message = v.strictObject({
  content: text(2_000),
  username: v.optional(text(80)),
  allowed_mentions: v.strictObject({ parse: v.strictTuple([]) }),
  flags: v.optional(v.literal(4)),
  embeds: v.optional(v.pipe(v.array(embed), v.maxLength(10))),
})
const longestEmbeds = 6_000

const error = (status: number, code: number, message: string) => ({
  status,
  error: { message, code },
})

/** A text channel with a webhook. It reads the markdown that Dealbell writes, and shows all else as it is. */
export const standInDiscord: StandInChat = {
  webhook: '/api/webhooks/100000000000000001/stand-in',
  read({ body }) {
    const { success, output } = v.safeParse(message, body)
    if (!success) return error(400, 50035, 'Invalid Form Body')
    const { content, flags, embeds = [] } = output
    const texts = embeds.flatMap(({ description, footer }) => [description, footer?.text ?? ''])
    if (texts.join('').length > longestEmbeds) return error(400, 50035, 'Invalid Form Body')
    const shown = html`<p class="lines">${shownText(content)}</p>${
      flags === undefined && embeds.map(shownEmbed)
    }`
    return { shown }
  },
  accepted: { status: 200, body: { id: '100000000000000003', channel_id: '100000000000000002' } },
  unknown: { message: 'Unheard', code: 240_000 },
  deleted: error(404, 10015, 'Unknown Webhook'),
  about: {
    id: '100000000000000001',
    type: 1,
    name: 'sales (stand-in)',
    channel_id: '100000000000000002',
    guild_id: '100000000000000004',
  },
}

function shownEmbed({ description, footer }: v.InferOutput<typeof embed>): Html {
  const paragraphs = description.split(/\n{2,}/)
  return html`<blockquote>${paragraphs.map((each) => html`<p class="lines">${shownText(each)}</p>`)}${
    footer && html`<p class="muted lines">${footer.text}</p>`
  }</blockquote>`
}

const markup =
  /\\([^\w\s]|_)|\*\*((?:\\.|[^\\])+?)\*\*|\[((?:\\.|[^[\]\\])+)\]\((https?:[^()\s]+)\)|<t:(-?\d{1,12}):([fD])>|https?:\/\/[^\s<>()]+|@(?:everyone|here)/s

function shownText(text: string): Html {
  const found = markup.exec(text)
  if (found === null) return html`${text}`
  const [all, literal, strong, label, url, seconds, form] = found
  const shown = () => {
    if (literal !== undefined) return html`${literal}`
    if (strong !== undefined) return html`<strong>${shownText(strong)}</strong>`
    if (label !== undefined) return html`<a href="${url}">${shownText(label)}</a>`
    if (seconds !== undefined) {
      const at = new Date(Number(seconds) * 1000)
      return shownTime(at, at.toISOString(), form === 'f' ? 'time' : 'date')
    }
    return all.startsWith('@') ? html`<strong>${all}</strong>` : html`<a href="${all}">${all}</a>`
  }
  const rest = text.slice(found.index + all.length)
  return html`${text.slice(0, found.index)}${shown()}${shownText(rest)}`
}
