import type { ChatMessage, Part } from '../chat-message.ts'

// https://docs.discord.com/developers/resources/webhook#execute-webhook
const mostContent = 2_000
const mostDescription = 4_096
const mostFooter = 2_048
const mostInEmbeds = 6_000
const noLinkPreviews = 4

/** With paragraphs, the message has an embed. Notifications show only the content. */
export function messageOf({ text, paragraphs, footer }: ChatMessage) {
  const content = escaped(text)
  const common = { content, username: 'Dealbell', allowed_mentions: { parse: [] } }
  // The flag would also remove our own embed. Beside one, the content has no link.
  if (paragraphs.length === 0) return { ...common, flags: noLinkPreviews }
  const description = paragraphs.map((parts) => parts.map(markdown).join('')).join('\n\n')
  // A footer has no markup.
  const small = footer.length > 0 && { footer: { text: footer.join('\n') } }
  return { ...common, embeds: [{ description, ...small }] as [Embed] }
}

interface Embed {
  description: string
  footer?: { text: string }
}

/** Counts at least what Discord counts. */
export function fits(message: ChatMessage): boolean {
  const { content, ...others } = messageOf(message)
  const [embed] = 'embeds' in others ? others.embeds : []
  const description = embed?.description.length ?? 0
  const footer = embed?.footer?.text.length ?? 0
  return (
    content.length <= mostContent &&
    description <= mostDescription &&
    footer <= mostFooter &&
    description + footer <= mostInEmbeds
  )
}

function markdown(part: Part): string {
  switch (part.type) {
    case 'text':
      return bold(part, escaped(part.text))
    case 'link':
      return bold(part, `[${escaped(withoutOddBrackets(part.text))}](${destination(part.url)})`)
    case 'date':
      return `<t:${Math.floor(part.at.getTime() / 1000)}:${part.withTime ? 'f' : 'D'}>`
    case 'member':
      return escaped(part.id)
  }
}

const bold = (part: { bold?: true }, text: string) => (part.bold ? `**${text}**` : text)

/** Without its pair, a bracket in a link's text breaks the link, even after a backslash. Wide ones look alike. */
const withoutOddBrackets = (text: string) =>
  /^(?:[^[\]]|\[[^[\]]*\])*$/.test(text) ? text : text.replaceAll('[', '［').replaceAll(']', '］')

/** Nothing in it can end a link. */
const destination = (url: string) =>
  new URL(url).href.replace(/[()[\]<>\\"'*_~`|\s]/g, (found) => percent(found))

const percent = (character: string) =>
  `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`

/**
 * What begins markup: also mentions, emojis (`:x:`), dates (`<t:0>`), addresses, which `:` and `/` have, and headings, quotes
 * and lists at the beginning of a line. https://support.discord.com/hc/en-us/articles/210298617
 */
const markup = /[\\*_~`|[\]<>:@#/]|(?<=^\s*)[-+]|(?<=^\s*\d+)[.)]/gm

/** Makes a text literal. */
const escaped = (text: string) => text.replace(markup, (found) => `\\${found}`)
