import { type ChatMessage, dateInUtc, linesOf, type Part } from '../chat-message.ts'

/**
 * A message with an Adaptive Card. A `TextRun` parses no markdown and no mention, so text from the CRM stays text. A
 * `TextBlock` would parse both.
 */
export function card({ text, paragraphs, footer }: ChatMessage) {
  const body =
    paragraphs.length === 0
      ? text.split('\n').map((line) => richText([{ type: 'TextRun', text: literal(line) }]))
      : [
          ...paragraphs.flatMap((parts, n) =>
            linesOf(parts).map((line, at) => ({
              ...richText(line.map(textRun)),
              spacing: at > 0 ? 'None' : n > 0 ? 'Medium' : 'Default',
            })),
          ),
          ...footer.map((line) =>
            richText([{ type: 'TextRun', text: literal(line), size: 'Small', isSubtle: true }]),
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
          fallbackText: literal(text),
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
      return { type: 'TextRun', text: literal(part.text), ...weight(part) }
    case 'link': {
      const selectAction = { type: 'Action.OpenUrl', url: part.url }
      const text = literal(part.text)
      return { type: 'TextRun', text, color: 'Accent', ...weight(part), selectAction }
    }
    case 'date':
      return { type: 'TextRun', text: dateInUtc(part) }
    case 'member':
      return { type: 'TextRun', text: part.id }
  }
}

/** Something invisible ends the functions that a card computes in every text: `{{DATE(…)}}`, `{{TIME(…)}}`. */
const literal = (text: string) => text.replace(/\{(?=\{)/g, '{\u200B')

const weight = ({ bold }: { bold?: true }) => bold && { weight: 'Bolder' }
