// `write/` gets changes with their rules and headlines. It returns the chat message about one change (this file) or
// about several (digest.ts), and what the user's list shows of each change (shown.ts). It reads nothing. Text from
// the CRM stays plain text, and a message stays within Slack's limits.

import type { AvailableRuleId } from '../../../contract/rules.ts'
import type { ChatMessage, RichText } from '../../providers/chat-message.ts'
import { formatAmount } from '../decide/amount.ts'
import type { Change, Headline } from '../decide/rules.ts'
import {
  bold,
  closeDateFact,
  context,
  escapeText,
  joinFacts,
  lateFact,
  longestLabel,
  longestName,
  nameOf,
  oneLine,
  type Part,
  richText,
  wordingOf,
} from './text.ts'

const longestHappened = longestLabel + 'moved to '.length
/** If a message is written so long after the change, it says when the change happened. */
const lateAfterMs = 10 * 60_000

export interface DealInMessage {
  name: string | null
  /** A decimal number as text. */
  amount: string | null
  currency: string | null
  ownerName: string | null
  /** The owner's id in the chat. The message then mentions the owner instead of naming them. */
  ownerInChat?: string | undefined
  closeDate?: Date | undefined
  url: string
}

export interface MessageEntry {
  deal: DealInMessage
  ownerId: string | null
  headline: Headline
  /** The label of the pipeline that the deal is in after the change, if the account has several. */
  pipeline?: string | undefined
  ruleId: AvailableRuleId
  /** When the change happened, if the message comes long afterwards. */
  late?: Date | undefined
}

/** Collects what a message says of a change. It does not know the owner's name. */
export function entryOf(
  change: Change,
  { ruleId, headline }: Pick<MessageEntry, 'ruleId' | 'headline'>,
  { occurredAt, atMs }: { occurredAt: Date; atMs: number },
): MessageEntry {
  const { deal, property, to, stage } = change
  return {
    ruleId,
    headline,
    pipeline: property === 'stage' ? stage(to).pipeline : undefined,
    deal: { ...deal, ownerName: null },
    ownerId: deal.ownerId,
    late: atMs - occurredAt.getTime() > lateAfterMs ? occurredAt : undefined,
  }
}

/** Says in one line of plain text what happened: '🎉 Acme renewal was won (€12,000)'. */
export function plainTextOf({
  deal,
  headline,
}: {
  deal: Pick<DealInMessage, 'name' | 'amount' | 'currency'>
  headline: Headline
}): string {
  const name = nameOf(deal, longestName)
  const happened = oneLine(headline.happened, longestHappened)
  const amount = formatAmount(deal.amount, deal.currency)
  return `${headline.sign} ${name} ${happened}${amount === undefined ? '' : ` (${amount})`}`
}

export function messageFor({ deal, headline, ...entry }: MessageEntry): ChatMessage {
  const { ruleId, pipeline, late } = entry
  const name = nameOf(deal, longestName)
  const to = bold(oneLine(headline.to, longestLabel))
  const from = oneLine(headline.from ?? '', longestLabel)
  const happened = oneLine(headline.happened, longestHappened)
  const amount = formatAmount(deal.amount, deal.currency)
  const facts = joinFacts([
    from === '' ? [to] : [`${from} → `, to],
    // For a change of the amount, the line above has it.
    amount !== headline.to && amount,
    ownerFact(deal),
    headline.remark,
    late && lateFact(late),
  ])
  const pipelineName = oneLine(pipeline ?? '', longestLabel)
  const more = joinFacts([
    pipelineName && `Pipeline: ${pipelineName}`,
    deal.closeDate && closeDateFact(deal.closeDate),
  ])
  const link: RichText = { type: 'link', url: deal.url, text: name, style: { bold: true } }

  return {
    text: escapeText(plainTextOf({ deal, headline })),
    blocks: [
      richText([
        `${headline.sign} `,
        link,
        ` ${happened}\n`,
        ...facts,
        ...(more.length > 0 ? ['\n', ...more] : []),
      ]),
      context([wordingOf(ruleId)]),
    ],
  }
}

/** The same in one text without blocks. */
export function plainMessageFor({ deal, headline }: MessageEntry): ChatMessage {
  return { text: escapeText(`${plainTextOf({ deal, headline })}\n${deal.url}`), blocks: [] }
}

function ownerFact({ ownerName, ownerInChat }: DealInMessage): Part[] | string | null {
  if (ownerInChat !== undefined) return ['Owner: ', { type: 'user', user_id: ownerInChat }]
  const name = oneLine(ownerName ?? '', longestLabel)
  return name && `Owner: ${name}`
}

/** The message that a user asked for, to see whether the channel gets messages. */
export const testMessage: ChatMessage = {
  text: '🧪 Test message from Dealbell',
  blocks: [
    richText([
      '🧪 ',
      bold('Test message from Dealbell'),
      '\nIt works: this channel gets the notifications about deals.',
    ]),
    context(['Somebody asked for this test on the dashboard.']),
  ],
}
