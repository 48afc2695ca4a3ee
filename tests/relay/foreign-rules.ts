import { createRequire } from 'node:module'
import discordMarkdown from 'discord-markdown-parser'
import { Window } from 'happy-dom'
import { marked, type Token } from 'marked'
import { expect } from 'vitest'

// Read what chats get by rules that are not ours. They throw if anything is more than text, links and small print.

/** What people see of a body: its lines of text that are not empty, and where its links lead. */
export interface Shown {
  text: string
  links: string[]
}

const { AdaptiveCard, RichTextBlock, SerializationContext, TextRun, OpenUrlAction, Versions } =
  createRequire(import.meta.url)(
    'adaptivecards/dist/adaptivecards.js',
  ) as typeof import('adaptivecards')

/** What people see by Microsoft's own renderer. It needs a document. */
export function readCard(json: object): Shown {
  const { attachments, ...others } = json as { attachments: [{ content: object }] }
  expect(others).toEqual({ type: 'message' })
  const context = new SerializationContext(Versions.v1_4)
  const card = new AdaptiveCard()
  card.parse(attachments[0].content, context)
  expect(context.eventCount).toBe(0)
  const lines = Array.from({ length: card.getItemCount() }, (_, n) => {
    const block = card.getItemAt(n)
    if (!(block instanceof RichTextBlock)) throw new Error('Not literal.')
    const runs = Array.from({ length: block.getInlineCount() }, (_, at) => {
      const run = block.getInlineAt(at)
      if (!(run instanceof TextRun)) throw new Error('Not literal.')
      return run
    })
    return { runs, text: rendered(block) }
  })
  const links = lines
    .flatMap(({ runs }) => runs)
    .flatMap(({ selectAction }) => {
      if (selectAction === undefined) return []
      if (!(selectAction instanceof OpenUrlAction)) throw new Error('Not a link.')
      return [selectAction.url ?? '']
    })
  return { text: lines.map(({ text }) => text.replaceAll('\u200B', '')).join('\n'), links }
}

const { document, HTMLElement, HTMLButtonElement } = new Window()

function rendered(block: InstanceType<typeof RichTextBlock>): string {
  const names = { document, HTMLElement, HTMLButtonElement }
  Object.assign(globalThis, names)
  try {
    return block.render()?.textContent ?? ''
  } finally {
    for (const name of Object.keys(names)) Reflect.deleteProperty(globalThis, name)
  }
}

const characters: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"' }
const decoded = (text: string) =>
  text.replace(/&(?:#(\d+)|(\w+));/g, (all, code?: string, name = '') =>
    code === undefined ? (characters[name] ?? all) : String.fromCodePoint(Number(code)),
  )

/** https://developers.google.com/workspace/chat/format-messages#card-formatting */
export function readGoogleCard(json: object): Shown {
  const { fallbackText, cardsV2, ...others } = json as {
    fallbackText: string
    cardsV2: [{ card: { sections: [{ widgets: { textParagraph: { text: string } }[] }] } }]
  }
  expect(others).toEqual({})
  expect(fallbackText).not.toMatch(/[<>]/)
  const links: string[] = []
  const texts = cardsV2[0].card.sections[0].widgets.map(({ textParagraph: { text } }) => {
    const open: string[] = []
    return text
      .split(/(<[^<>]*>)/)
      .map((piece) => {
        const [, close, name, , url] =
          /^<(\/?)(b|a|br|font)( (?:href|color)="([^"<>]*)")?>$/.exec(piece) ?? []
        if (name === 'br') return '\n'
        if (close === '/') expect(open.pop()).toBe(name)
        else if (name !== undefined) open.push(name)
        if (name === 'a' && url !== undefined) links.push(decoded(url))
        if (name !== undefined) return ''
        expect(piece).not.toMatch(/[<>]|&(?!(?:lt|gt|amp|quot);)/)
        return decoded(piece)
      })
      .join('')
  })
  return { text: texts.join('\n'), links }
}

/** What Mattermost finds in a text beside markdown, by its text_formatting.tsx, emoticons.tsx and own `marked`. */
const mattermostAdds = [
  /(?:\B|\b_+)@[a-z0-9.\-_]+/i,
  /[\p{L}\p{Nd}!#$%&'*+\-/=?^_`{|}~.]@[\p{L}\d.-]+[.]\p{L}{2,5}/u,
  /(^|\W)#\p{L}[\p{L}\d\-_.]*[\p{L}\d]/u,
  /\B~[a-z0-9.\-_]+/i,
  /(?<!\w):[\w+-]+:(?!\w)/,
  /(^|\B):-?[)(\]/|$@[]/,
  /(^|\B):-?[odpsx]\b/i,
  /(^|\B);-?\)/,
  /\bx-d\b/i,
  /<\/?3|&lt;\/?3/,
  /\$[^$\n]+\$(?!\w)/,
  /[A-Za-z][A-Za-z\d.+-]*:(?:\/{1,3}|[\p{L}\d%])|www\d{0,3}[.]|[\p{L}\d.-]+[.]\p{L}{2,4}\//u,
]

export function readMarkdown(json: object): Shown {
  const { text, ...others } = json as { text: string }
  expect(others).toEqual({})
  // The server expands Slack's mentions before it parses anything.
  expect(text).not.toMatch(/<[!@]/)
  const links: string[] = []
  function read(token: Token): string {
    if (token.type === 'link') links.push(token.href)
    else if (!/^(paragraph|text|strong|em|space|br)$/.test(token.type)) throw new Error(token.type)
    if ('tokens' in token && token.tokens) return token.tokens.map(read).join('')
    if (token.type === 'space' || token.type === 'br') return '\n'
    for (const pattern of mattermostAdds) expect(token.raw).not.toMatch(pattern)
    return decoded(token.raw)
  }
  const shown = marked.lexer(text).map(read).join('')
  // The server looks for mentions in the text that is shown.
  expect(shown).not.toMatch(/@[\p{L}\p{N}:._-]/u)
  return { text: shown.replaceAll('\u200B', ''), links }
}

interface DiscordNode {
  type: string
  content?: string | DiscordNode[]
  target?: string
  name?: string
  timestamp?: string
}

/** What Discord finds in a text beside what this parser knows: lists, invitations without a scheme, emojis. */
const discordAdds = [/^\s*([-*+]|\d+\.)\s/m, /discord\.gg\//i, /:\w+:/]

function readDiscordText(text: string): Shown {
  const links: string[] = []
  function read(node: DiscordNode): string {
    const { type, content = '' } = node
    if (type === 'br') return '\n'
    if (type === 'twemoji') return node.name ?? ''
    if (type === 'timestamp') {
      const iso = new Date(Number(node.timestamp) * 1000).toISOString()
      return `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`
    }
    if (type === 'link') links.push(node.target ?? '')
    else if (!/^(text|escape|strong)$/.test(type)) throw new Error(type)
    const shown = typeof content === 'string' ? content : content.map(read).join('')
    // In them, we replace brackets that have no pair.
    return type === 'link' ? shown.replaceAll('［', '[').replaceAll('］', ']') : shown
  }
  // Neither addresses of links nor dates count. They are not in the text that is shown.
  const source = text.replaceAll(/\]\(https?:[^()]*\)|<t:-?\d+:[fD]>/g, '')
  for (const pattern of discordAdds) expect(source).not.toMatch(pattern)
  // Of embeds: only they and webhooks have links.
  const shown = (discordMarkdown(text, 'extended') as DiscordNode[]).map(read).join('')
  return { text: shown, links }
}

/** https://docs.discord.com/developers/resources/webhook#execute-webhook */
export function readDiscord(json: object): Shown {
  const { content, embeds, username, flags, allowed_mentions, ...others } = json as {
    content: string
    username: string
    allowed_mentions: object
    flags?: number
    embeds?: [{ description: string; footer?: { text: string } }]
  }
  expect(others).toEqual({})
  expect(allowed_mentions).toEqual({ parse: [] })
  const notified = readDiscordText(content)
  expect(notified.links).toEqual([])
  if (embeds === undefined) {
    expect(flags).toBe(4)
    return notified
  }
  expect([flags, embeds.length]).toEqual([undefined, 1])
  const [{ description, footer }] = embeds
  const { text, links } = readDiscordText(description)
  return { text: [text, ...(footer ? [footer.text] : [])].join('\n'), links }
}
