// `write/` gets changes with their rules and headlines. It returns the chat message about one change (this file) or
// about several (digest.ts), and what the user's list shows of each change (shown.ts). It reads nothing. Text from
// the CRM is not escaped: each chat shows it literally.

import type { AvailableRuleId } from '../../../contract/rules.ts'
import type { ChatMessage } from '../../providers/chat-message.ts'
import { inSentence } from '../../providers/foreign-text.ts'
import { formatAmount } from '../decide/amount.ts'
import type { Change, Headline } from '../decide/rules.ts'
import {
  bold,
  closeDateFact,
  joinFacts,
  lateFact,
  longestLabel,
  longestName,
  nameOf,
  type Piece,
  paragraph,
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
  const happened = inSentence(headline.happened, longestHappened)
  const amount = formatAmount(deal.amount, deal.currency)
  return `${headline.sign} ${name} ${happened}${amount === undefined ? '' : ` (${amount})`}`
}

export function messageFor({ deal, headline, ...entry }: MessageEntry): ChatMessage {
  const { ruleId, pipeline, late } = entry
  const name = nameOf(deal, longestName)
  const to = bold(inSentence(headline.to, longestLabel))
  const from = inSentence(headline.from ?? '', longestLabel)
  const happened = inSentence(headline.happened, longestHappened)
  const amount = formatAmount(deal.amount, deal.currency)
  const facts = joinFacts([
    from === '' ? [to] : [`${from} → `, to],
    // For a change of the amount, the line above has it.
    amount !== headline.to && amount,
    ownerFact(deal),
    headline.remark,
    late && lateFact(late),
  ])
  const pipelineName = inSentence(pipeline ?? '', longestLabel)
  const more = joinFacts([
    pipelineName && `Pipeline: ${pipelineName}`,
    deal.closeDate && closeDateFact(deal.closeDate),
  ])
  return {
    text: plainTextOf({ deal, headline }),
    paragraphs: [
      paragraph([
        `${headline.sign} `,
        { type: 'link', url: deal.url, text: name, bold: true },
        ` ${happened}\n`,
        ...facts,
        ...(more.length > 0 ? ['\n', ...more] : []),
      ]),
    ],
    footer: [wordingOf(ruleId)],
  }
}

/** The same in one text. */
export function plainMessageFor({ deal, headline }: MessageEntry): ChatMessage {
  return inOneText(`${plainTextOf({ deal, headline })}\n${deal.url}`)
}

const inOneText = (text: string): ChatMessage => ({ text, paragraphs: [], footer: [] })

function ownerFact({ ownerName, ownerInChat }: DealInMessage): Piece[] | string | null {
  if (ownerInChat !== undefined) return ['Owner: ', { type: 'member', id: ownerInChat }]
  const name = inSentence(ownerName ?? '', longestLabel)
  return name && `Owner: ${name}`
}

/** The message that a user asked for, to see whether the channel gets messages. */
export const testMessage: ChatMessage = {
  text: '🧪 Test message from Dealbell',
  paragraphs: [
    paragraph([
      '🧪 ',
      bold('Test message from Dealbell'),
      '\nIt works: this channel gets the notifications about deals.',
    ]),
  ],
  footer: ['Somebody asked for this test on the dashboard.'],
}

export const plainTestMessage = inOneText(testMessage.text)
