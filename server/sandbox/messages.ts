import { html } from 'hono/html'
import * as v from 'valibot'

const blocks = v.array(
  v.object({
    text: v.optional(v.object({ text: v.string() })),
    elements: v.optional(v.array(v.object({ text: v.string() }))),
  }),
)

export interface StandInMessage {
  at: Date
  text: string
  blocks: v.InferOutput<typeof blocks>
}

const kept = 200

/** The messages in the stand-in Slack's channels. They are lost when the server stops. */
export class StandInMessages {
  readonly #channels = new Map<string, StandInMessage[]>()

  /** @param blocks the value of the call, or its JSON. */
  add(channelId: string, text: string, blocksOrJson: unknown): void {
    const value = typeof blocksOrJson === 'string' ? parseJson(blocksOrJson) : blocksOrJson
    const parsed = v.safeParse(blocks, value)
    const message = { at: new Date(), text, blocks: parsed.success ? parsed.output : [] }
    this.#channels.set(channelId, [message, ...this.in(channelId)].slice(0, kept))
  }

  /** The newest first. */
  in(channelId: string): readonly StandInMessage[] {
    return this.#channels.get(channelId) ?? []
  }
}

export function messageItem({ at, text, blocks }: StandInMessage) {
  const lines = blocks.flatMap((block) => [
    ...(block.text ? block.text.text.split('\n').map((line) => html`<p>${mrkdwn(line)}</p>`) : []),
    ...(block.elements ?? []).map((part) => html`<p class="muted">${mrkdwn(part.text)}</p>`),
  ])
  return html`<li>
    <p class="muted"><strong>Dealbell</strong> <time datetime="${at.toISOString()}">${at.toLocaleTimeString('en')}</time></p>
    ${lines.length > 0 ? lines : html`<p>${mrkdwn(text)}</p>`}
  </li>`
}

/** Renders the part of Slack's mrkdwn that Dealbell writes: links, bold and mentions. */
function mrkdwn(text: string) {
  return text.split(/(<[^>]*>|\*)/).reduce<{ parts: unknown[]; bold: boolean }>(
    ({ parts, bold }, part) => {
      if (part === '*') return { parts, bold: !bold }
      const link = part.match(/^<(https?:[^|>]+)\|?([^>]*)>$/)
      const shown = link
        ? html`<a href="${unescapeText(link[1] ?? '')}">${unescapeText(link[2] ?? '')}</a>`
        : part.startsWith('<!')
          ? html`<mark>@${part.slice(2, -1)} rings everyone</mark>`
          : unescapeText(part)
      parts.push(bold && part !== '' ? html`<strong>${shown}</strong>` : shown)
      return { parts, bold }
    },
    { parts: [], bold: false },
  ).parts
}

function unescapeText(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
