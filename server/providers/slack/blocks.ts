import type { ChatMessage, Part } from '../chat-message.ts'

export type RichText =
  | { type: 'text'; text: string; style?: { bold: true } }
  | { type: 'link'; url: string; text: string; style?: { bold: true } }
  | { type: 'date'; timestamp: number; format: string; fallback: string }
  | { type: 'user'; user_id: string }

/** Slack refuses blocks with too much text together. It does not document the limit; 11,000 was too much. */
const longestBlocks = 9_000

/**
 * A message as Slack takes it. In `rich_text` and `plain_text`, Slack shows all text literally. Never write text from the
 * CRM as `mrkdwn`: its `*`, `_` and addresses cannot be escaped.
 */
export function slackMessage({ text, paragraphs, footer }: ChatMessage) {
  const blocks = [
    ...paragraphs.map((parts) => ({
      type: 'rich_text' as const,
      elements: [{ type: 'rich_text_section' as const, elements: parts.map(element) }],
    })),
    ...(footer.length === 0
      ? []
      : [
          {
            type: 'context' as const,
            elements: footer.map((text) => ({ type: 'plain_text' as const, text })),
          },
        ]),
  ]
  return { text: escapeText(text), blocks }
}

export type SlackBlocks = ReturnType<typeof slackMessage>['blocks']

export const fitsSlack = (message: ChatMessage) =>
  JSON.stringify(slackMessage(message).blocks).length <= longestBlocks

function element(part: Part): RichText {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text, ...style(part) }
    case 'link':
      return { type: 'link', url: part.url, text: part.text, ...style(part) }
    case 'member':
      return { type: 'user', user_id: part.id }
    case 'date': {
      const { at, withTime } = part
      const iso = at.toISOString()
      return {
        type: 'date',
        timestamp: Math.floor(at.getTime() / 1000),
        format: withTime ? '{date_short_pretty} {time}' : '{date_short_pretty}',
        fallback: iso.slice(0, 10) + (withTime ? ` ${iso.slice(11, 16)} UTC` : ''),
      }
    }
  }
}

const style = ({ bold }: { bold?: true }) => bold && { style: { bold } }

/** Otherwise a deal named `<!channel>` would notify the whole channel. */
function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
