import type { AvailableRuleId } from '../../contract/rules.ts'
import { ruleCatalogue } from '../../contract/rules.ts'
import type { ChatMessage } from '../providers/provider.ts'
import { formatAmount } from './amount.ts'
import type { Headline } from './rules.ts'

/** What a message says about the deal itself. */
export interface DealInMessage {
  name: string | null
  /** A decimal number as text. */
  amount: string | null
  currency: string | null
  ownerName: string | null
  /** The deal's page in the CRM. */
  url: string
}

const longestName = 150
const longestLabel = 80

/** Writes the chat message about a change of a deal. `ruleId` is the rule that applies. */
export function messageFor(
  deal: DealInMessage,
  headline: Headline,
  ruleId: AvailableRuleId,
): ChatMessage {
  const name = safeText(deal.name ?? '', longestName) || 'Unnamed deal'
  const to = safeText(headline.to, longestLabel)
  const from = safeText(headline.from ?? '', longestLabel)
  const happened = safeText(headline.happened, longestLabel + 'moved to '.length)
  const amount = formatAmount(deal.amount, deal.currency)
  const facts = [
    from === '' ? `*${to}*` : `${from} → *${to}*`,
    amount,
    deal.ownerName && `Owner: ${safeText(deal.ownerName, longestLabel)}`,
    headline.remark,
  ].filter((fact) => typeof fact === 'string' && fact !== '')

  return {
    text: `${headline.sign} ${name} ${happened}${amount === undefined ? '' : ` (${amount})`}`,
    blocks: [
      {
        type: 'section',
        text: {
          type: 'mrkdwn',
          text: `${headline.sign} *<${escapeText(deal.url)}|${name}>* ${happened}\n${facts.join('  ·  ')}`,
        },
      },
      {
        type: 'context',
        elements: [{ type: 'mrkdwn', text: `Notify me when ${wordingOf(ruleId)}` }],
      },
    ],
  }
}

/** Turns a text from the CRM into one line that Slack shows literally, cut to `maxLength`. */
function safeText(text: string, maxLength: number): string {
  return escapeText(oneLine(text, maxLength))
}

/** Escapes a text for Slack. Otherwise a deal named `<!channel>` would notify the whole channel. */
function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function wordingOf(ruleId: AvailableRuleId): string {
  const rule = ruleCatalogue.flatMap(({ rules }) => [...rules]).find(({ id }) => id === ruleId)
  return rule === undefined ? ruleId : rule.when
}

function oneLine(text: string, maxLength: number): string {
  const line = text
    .toWellFormed()
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  const characters = Array.from(line)
  return characters.length <= maxLength ? line : `${characters.slice(0, maxLength - 1).join('')}…`
}
