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
  return html`<li>
    <p class="muted"><strong>Dealbell</strong> <time datetime="${at.toISOString()}">${at.toLocaleTimeString('en')}</time></p>
    ${blocks.length > 0 ? blocks.map(shownBlock) : html`<p>${unescapeText(text)}</p>`}
  </li>`
}

/** Renders the kinds of blocks that Dealbell sends. Like Slack, it parses nothing in their texts. */
function shownBlock(block: Blocks[number]) {
  if (block.type === 'rich_text') {
    const parts = block.elements.flatMap(({ elements }) => elements.map(shownPart))
    return html`<p class="lines">${parts}</p>`
  }
  const texts = block.type === 'context' ? block.elements : 'text' in block ? [block.text] : []
  return texts.map((part) => part && 'text' in part && html`<p class="muted">${part.text}</p>`)
}

type Part = Extract<Blocks[number], { type: 'rich_text' }>['elements'][number]['elements'][number]

function shownPart(part: Part) {
  const { type, style } = part
  const shown =
    type === 'link'
      ? html`<a href="${part.url}">${part.text ?? part.url}</a>`
      : type === 'date'
        ? html`<time>${part.fallback ?? part.format}</time>`
        : part.text
  return style?.bold ? html`<strong>${shown}</strong>` : shown
}

/** Slack takes these three characters only escaped. */
function unescapeText(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}
