import { html } from 'hono/html'
import type { Blocks } from './blocks.ts'

export interface StandInMessage {
  at: Date
  text: string
  blocks: Blocks
}

/** A channel keeps so many messages, with so many characters of JSON. The oldest go first. */
const maxMessages = 200
const maxCharacters = 200_000

/** The messages in the stand-in Slack's channels. They are lost when the server stops. */
export class StandInMessages {
  readonly #channels = new Map<string, StandInMessage[]>()

  add(channelId: string, text: string, blocks: Blocks): void {
    const message = { at: new Date(), text: text.slice(0, 3_000), blocks }
    const kept: StandInMessage[] = []
    let characters = 0
    for (const one of [message, ...this.in(channelId)].slice(0, maxMessages)) {
      characters += JSON.stringify(one).length
      if (characters > maxCharacters) break
      kept.push(one)
    }
    this.#channels.set(channelId, kept)
  }

  /** The newest first. */
  in(channelId: string): readonly StandInMessage[] {
    return this.#channels.get(channelId) ?? []
  }
}

export function messageItem({ at, text, blocks }: StandInMessage) {
  const lines = blocks.flatMap((block) => {
    const lines = 'text' in block && block.text ? block.text.text.split('\n') : []
    const parts = block.type === 'context' ? block.elements : []
    return [
      ...lines.map((line) => html`<p>${mrkdwn(line)}</p>`),
      ...parts.map((part) => 'text' in part && html`<p class="muted">${mrkdwn(part.text)}</p>`),
    ]
  })
  return html`<li>
    <p class="muted"><strong>Dealbell</strong> <time datetime="${at.toISOString()}">${at.toLocaleTimeString('en')}</time></p>
    ${lines.length > 0 ? lines : html`<p>${mrkdwn(text)}</p>`}
  </li>`
}

/** Renders the part of Slack's mrkdwn that Dealbell writes: links, bold and mentions. */
function mrkdwn(text: string) {
  // Excluding `<` keeps the time linear: a text of only `<` would be searched to its end for each of them.
  return text.split(/(<[^<>]*>|\*)/).reduce<{ parts: unknown[]; bold: boolean }>(
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
