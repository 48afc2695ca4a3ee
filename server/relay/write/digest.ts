// Gets what messages would say of several changes, in their order. Returns one message about the first ones, and how many
// it covers: at least one, and as many as the chat's limits allow.

import type { ChatMessage } from '../../providers/chat-message.ts'
import { inSentence } from '../../providers/foreign-text.ts'
import { formatAmount } from '../decide/amount.ts'
import type { DealInMessage, MessageEntry } from './message.ts'
import {
  bold,
  joinFacts,
  lateFact,
  longestLabel,
  nameOf,
  type Piece,
  paragraph,
  wordingOf,
} from './text.ts'

export const mostInDigest = 30
/** The longest name and label in a digest. */
const lengthsInDigest = [
  { name: 80, label: 40 },
  { name: 40, label: 25 },
] as const
type Lengths = (typeof lengthsInDigest)[number]

interface Digest {
  message: ChatMessage
  /** How many entries the message covers, from the first one on. */
  covers: number
}

/**
 * Writes one message about several changes: the totals, then the changes in groups of what happened.
 * Groups and changes keep the order of the entries. If the message does not fit, it has shorter names, or
 * covers fewer entries.
 * @param fits whether the chat takes a message as a whole.
 */
export function digestOf(
  entries: readonly MessageEntry[],
  fits: (message: ChatMessage) => boolean,
): Digest {
  for (let covers = entries.length; ; covers--) {
    for (const lengths of lengthsInDigest) {
      const message = digestWith(entries.slice(0, covers), lengths)
      if (covers === 1 || fits(message)) return { message, covers }
    }
  }
}

function digestWith(entries: readonly MessageEntry[], lengths: Lengths): ChatMessage {
  const totals = totalsOf(entries)
  const groups = Map.groupBy(entries, ({ headline }) => headline.title ?? headline.happened)
  const wordings = new Set(entries.map(({ ruleId }) => wordingOf(ruleId)))
  return {
    text: totals,
    paragraphs: [
      paragraph([bold(totals)]),
      ...Array.from(groups, ([title, group]) =>
        paragraph([
          `${group[0]?.headline.sign ?? ''} `,
          bold(inSentence(title, lengths.label * 2)),
          ...group.flatMap((entry) => digestLine(entry, lengths)),
        ]),
      ),
    ],
    footer: [...wordings],
  }
}

/** Counts what happened: '31 deals moved · 12 won, €84,000 · 3 lost'. A won deal has also moved. */
function totalsOf(entries: readonly MessageEntry[]): string {
  const counted = entries.flatMap((entry) => {
    const { counts, happened } = entry.headline
    return (counts ?? [happened]).map((what) => ({ what, deal: entry.deal }))
  })
  return [...Map.groupBy(counted, ({ what }) => what)]
    .map(([what, some], at) => {
      // A deal may have changed several times.
      const deals = [...new Map(some.map(({ deal }) => [deal.url, deal])).values()]
      const noun = at > 0 ? '' : deals.length === 1 ? ' deal' : ' deals'
      const amounts = what === 'won' ? sums(deals) : []
      return [`${deals.length}${noun} ${inSentence(what, longestLabel)}`, ...amounts].join(', ')
    })
    .join(' · ')
}

function sums(deals: readonly DealInMessage[]): string[] {
  return [...Map.groupBy(deals, ({ currency }) => (currency ?? '').toUpperCase())].flatMap(
    ([currency, some]) => {
      const amounts = some.map(({ amount }) => Number(amount)).filter(Number.isFinite)
      const sum = amounts.reduce((total, amount) => total + amount, 0)
      return sum === 0 ? [] : (formatAmount(String(sum), currency) ?? [])
    },
  )
}

function digestLine({ deal, headline, late }: MessageEntry, lengths: Lengths): Piece[] {
  const name = nameOf(deal, lengths.name)
  const from = inSentence(headline.from ?? '', lengths.label)
  const to = inSentence(headline.to, lengths.label)
  const amount = formatAmount(deal.amount, deal.currency)
  const facts = joinFacts([
    // Not bold: that would need more room than the text.
    from === '' ? to : `${from} → ${to}`,
    amount !== headline.to && amount,
    headline.remark,
    late && lateFact(late),
  ])
  return ['\n• ', { type: 'link', url: deal.url, text: name }, '  ', ...facts]
}
