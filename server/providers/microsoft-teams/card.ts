import { type ChatMessage, dateInUtc, linesOf, type Part } from '../chat-message.ts'

/**
 * A message with an Adaptive Card. A `TextRun` parses no markdown, no mention and no date function, so text from the CRM
 * stays text. A `TextBlock` would parse all of them.
 */
export function card({ text, paragraphs, footer }: ChatMessage) {
  const body =
    paragraphs.length === 0
      ? text.split('\n').map((line) => richText([{ type: 'TextRun', text: line }]))
      : [
          ...paragraphs.flatMap((parts, n) =>
            linesOf(parts).map((line, at) => ({
              ...richText(line.map(textRun)),
              spacing: at > 0 ? 'None' : n > 0 ? 'Medium' : 'Default',
            })),
          ),
          ...footer.map((line) =>
            richText([{ type: 'TextRun', text: line, size: 'Small', isSubtle: true }]),
          ),
        ]
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          fallbackText: text,
          body,
          msteams: { width: 'Full' },
        },
      },
    ],
  }
}

const richText = (inlines: readonly object[]) => ({ type: 'RichTextBlock', inlines })

function textRun(part: Part) {
  switch (part.type) {
    case 'text':
      return { type: 'TextRun', text: part.text, ...weight(part) }
    case 'link': {
      const selectAction = { type: 'Action.OpenUrl', url: part.url }
      return { type: 'TextRun', text: part.text, color: 'Accent', ...weight(part), selectAction }
    }
    case 'date':
      return { type: 'TextRun', text: dateInUtc(part) }
    case 'member':
      return { type: 'TextRun', text: part.id }
  }
}

const weight = ({ bold }: { bold?: true }) => bold && { weight: 'Bolder' }
