import { type ChatMessage, dateInUtc, type Part } from '../chat-message.ts'

/** A message in Mattermost's markdown. */
export function textOf({ text, paragraphs, footer }: ChatMessage): string {
  const shown = paragraphs.length === 0 ? [escaped(text)] : paragraphs.map(paragraph)
  // It has no small print.
  const small = footer.map((line) => `_${escaped(line)}_`).join('\n')
  return [...shown, ...(small === '' ? [] : [small])].join('\n\n')
}

const paragraph = (parts: readonly Part[]) => parts.map(markdown).join('')

function markdown(part: Part): string {
  switch (part.type) {
    case 'text':
      return bold(part, escaped(part.text))
    case 'link':
      return bold(part, `[${escaped(part.text)}](${destination(part.url)})`)
    case 'date':
      return dateInUtc(part)
    case 'member':
      return escaped(part.id)
  }
}

const bold = (part: { bold?: true }, text: string) => (part.bold ? `**${text}**` : text)

/** Nothing in it can end a link. */
const destination = (url: string) =>
  new URL(url).href.replace(/[()[\]<>\\"'*_~`|\s]/g, (found) => percent(found))

const percent = (character: string) =>
  `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`

/**
 * What begins markup in Mattermost: of its markdown, and also emojis (`:tada:`, `:)`, `;)`, `x-d`), LaTeX (`$x$`), hashtags,
 * channels (`~town`) and addresses without a scheme (`evil.example/x`). What is usual in names stays as it is, because
 * notifications show the source. https://docs.mattermost.com/end-user-guide/collaborate/format-messages.html
 */
const markup =
  /[&<>\\=_*#~|`[\]]|:(?! )|;(?=[-)])|\$(?!\d)|\.(?=\p{L})|(?<=w\d*)\.|(?<=^\s*\d+)[.)]|(?<=^\s*)[-+]|(?<=\bx)-(?=d)/gimu

/**
 * Makes a text literal. Mattermost does not take back a backslash before each of these characters, but it shows the
 * characters of entities, and looks for no markup in them. For mentions the server looks in the shown text. So
 * something invisible stands behind each `@`.
 */
const escaped = (text: string) =>
  text.replace(markup, (found) => `&#${found.charCodeAt(0)};`).replaceAll('@', '@\u200B')
