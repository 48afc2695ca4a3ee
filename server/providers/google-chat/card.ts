import { type ChatMessage, dateInUtc, linesOf, type Part } from '../chat-message.ts'

/**
 * A message with a card. The text of a card is a small part of HTML, so text from the CRM stays text when it is escaped.
 * The field `text` would parse mentions, links and markdown, and cannot escape them.
 * https://developers.google.com/workspace/chat/format-messages
 */
export function card({ text, paragraphs, footer }: ChatMessage) {
  const plain: Part[] = [{ type: 'text', text }]
  const shown = (paragraphs.length === 0 ? [plain] : paragraphs).map((parts) =>
    linesOf(parts)
      .map((line) => line.map(html).join(''))
      .join('<br>'),
  )
  const small = footer.map((line) => `<font color="#80868b">${escaped(line)}</font>`)
  const texts = [...shown, ...(small.length > 0 ? [small.join('<br>')] : [])]
  return {
    // Notifications show it. It is plain text, but no source says that Google looks for no mention in it.
    fallbackText: text.replaceAll('<', '‹').replaceAll('>', '›'),
    cardsV2: [
      {
        cardId: 'dealbell',
        card: {
          sections: [{ widgets: texts.map((each) => ({ textParagraph: { text: each } })) }],
        },
      },
    ],
  }
}

function html(part: Part): string {
  switch (part.type) {
    case 'text':
      return bold(part, escaped(part.text))
    case 'link':
      return bold(part, `<a href="${escaped(part.url)}">${escaped(part.text)}</a>`)
    case 'date':
      return dateInUtc(part)
    case 'member':
      return escaped(part.id)
  }
}

const bold = (part: { bold?: true }, text: string) => (part.bold ? `<b>${text}</b>` : text)

const entities = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' } as const

const escaped = (text: string) =>
  text.replace(/[&<>"]/g, (found) => entities[found as keyof typeof entities])
