import { ruleCatalogue } from '../../contract/rules.ts'
import type { ChatMessage } from '../providers/provider.ts'
import type { Move, RuleId } from './decide.ts'

export interface Deal {
  name: string | null
  /** As HubSpot writes it: a decimal number in text. */
  amount: string | null
  currency: string | null
  ownerName: string | null
  /** Its page in HubSpot. */
  url: string
}

/** The chat message about a move, said under one rule. */
export function messageFor(deal: Deal, move: Move, ruleId: RuleId): ChatMessage {
  const name = escapeText(oneLine(deal.name ?? '', 150)) || 'Unnamed deal'
  const to = escapeText(oneLine(move.to.label, 80))
  const from = move.from ? escapeText(oneLine(move.from.label, 80)) : undefined
  const happened = {
    won: 'was won',
    lost: 'was lost',
    closed: 'was closed',
    open: `moved to ${to}`,
  }[move.to.outcome]
  const sign = { won: '🎉', lost: '📉', closed: '🏁', open: '🔔' }[move.to.outcome]
  const amount = formatAmount(deal.amount, deal.currency)
  const facts = [
    from === undefined ? `*${to}*` : `${from} → *${to}*`,
    amount,
    deal.ownerName && `Owner: ${escapeText(oneLine(deal.ownerName, 80))}`,
    ruleId === 'deal-stage-changed-orphan' && 'No contact or company on this deal',
  ].filter((fact) => typeof fact === 'string' && fact !== '')

  return {
    text: `${sign} ${name} ${happened}${amount === undefined ? '' : ` (${amount})`}`,
    blocks: [
      {
        type: 'section',
        text: {
          type: 'mrkdwn',
          text: `${sign} *<${escapeText(deal.url)}|${name}>* ${happened}\n${facts.join('  ·  ')}`,
        },
      },
      {
        type: 'context',
        elements: [{ type: 'mrkdwn', text: `Notify me when ${wordsOf(ruleId)}` }],
      },
    ],
  }
}

/** Without this a deal named `<!channel>` rings everyone. */
function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** '€1,250.00'; undefined when HubSpot holds no amount. */
export function formatAmount(amount: string | null, currency: string | null): string | undefined {
  if (amount === null || amount.trim() === '') return undefined
  const value = Number(amount)
  if (!Number.isFinite(value)) return undefined
  const code = currency?.toUpperCase()
  // Three letters are well-formed to Intl, whether or not it knows the currency.
  if (code === undefined || !/^[A-Z]{3}$/.test(code))
    return new Intl.NumberFormat('en').format(value)
  return new Intl.NumberFormat('en', { style: 'currency', currency: code }).format(value)
}

function wordsOf(ruleId: RuleId): string {
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
