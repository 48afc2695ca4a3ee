import type { AvailableRuleId } from '../../../contract/rules.ts'
import { ruleCatalogue } from '../../../contract/rules.ts'
import type { ChatMessage, RichText } from '../../providers/provider.ts'
import type { Headline } from '../decide/rules.ts'
import { formatAmount } from './amount.ts'

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

export const longestName = 150
export const longestLabel = 80
const longestHappened = longestLabel + 'moved to '.length

/** A change of a deal that needs a message. */
export interface MessageEntry {
  deal: DealInMessage
  /** The owner's id in the CRM. */
  ownerId: string | null
  headline: Headline
  /** The rule that applies. */
  ruleId: AvailableRuleId
  /** When the change happened, if the CRM reported it long afterwards. */
  late?: Date | undefined
}

/** Says in one line of plain text what happened: '🎉 Acme renewal was won (€12,000)'. */
export function plainTextOf({
  deal,
  headline,
}: {
  deal: Pick<DealInMessage, 'name' | 'amount' | 'currency'>
  headline: Headline
}): string {
  const name = oneLine(deal.name ?? '', longestName) || 'Unnamed deal'
  const happened = oneLine(headline.happened, longestHappened)
  const amount = formatAmount(deal.amount, deal.currency)
  return `${headline.sign} ${name} ${happened}${amount === undefined ? '' : ` (${amount})`}`
}

/** Writes the chat message about one change of a deal. */
export function messageFor({ deal, headline, ruleId, late }: MessageEntry): ChatMessage {
  const name = oneLine(deal.name ?? '', longestName) || 'Unnamed deal'
  const to = bold(oneLine(headline.to, longestLabel))
  const from = oneLine(headline.from ?? '', longestLabel)
  const happened = oneLine(headline.happened, longestHappened)
  const amount = formatAmount(deal.amount, deal.currency)
  const facts = joinFacts([
    from === '' ? [to] : [`${from} → `, to],
    // For a change of the amount, the line above has it.
    amount !== headline.to && amount,
    deal.ownerName && `Owner: ${oneLine(deal.ownerName, longestLabel)}`,
    headline.remark,
    late && lateFact(late),
  ])
  const link: RichText = { type: 'link', url: deal.url, text: name, style: { bold: true } }

  return {
    text: escapeText(plainTextOf({ deal, headline })),
    blocks: [
      richText([`${headline.sign} `, link, ` ${happened}\n`, ...facts]),
      context([`Notify me when ${wordingOf(ruleId)}`]),
    ],
  }
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

/** Slack refuses blocks with too much text together. It does not document the limit; 11,000 was too much. */
const longestDigest = 9_000
/** The longest name and label in a digest. */
const lengthsInDigest = [
  { name: 80, label: 40 },
  { name: 40, label: 25 },
] as const
type Lengths = (typeof lengthsInDigest)[number]

export interface Digest {
  message: ChatMessage
  /** How many entries the message covers, from the first one on. */
  covers: number
}

/**
 * Writes one message about several changes: the totals, then the changes in groups of what happened.
 * Groups and changes keep the order of the entries. If the message would exceed Slack's limits, it has
 * shorter names, or covers fewer entries.
 */
export function digestOf(entries: readonly MessageEntry[]): Digest {
  for (let covers = entries.length; ; covers--) {
    for (const lengths of lengthsInDigest) {
      const message = digestWith(entries.slice(0, covers), lengths)
      const fits = JSON.stringify(message.blocks).length <= longestDigest
      if (fits || covers === 1) return { message, covers }
    }
  }
}

function digestWith(entries: readonly MessageEntry[], lengths: Lengths): ChatMessage {
  const totals = totalsOf(entries)
  const groups = Map.groupBy(entries, ({ headline }) => headline.title ?? headline.happened)
  const wordings = new Set(entries.map(({ ruleId }) => `Notify me when ${wordingOf(ruleId)}`))
  return {
    text: escapeText(totals),
    blocks: [
      richText([bold(totals)]),
      ...Array.from(groups, ([title, group]) =>
        richText([
          `${group[0]?.headline.sign ?? ''} `,
          bold(oneLine(title, lengths.label * 2)),
          ...group.flatMap((entry) => digestLine(entry, lengths)),
        ]),
      ),
      context([...wordings]),
    ],
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
      return [`${deals.length}${noun} ${oneLine(what, longestLabel)}`, ...amounts].join(', ')
    })
    .join(' · ')
}

/** Adds up the amounts of each currency. */
function sums(deals: readonly DealInMessage[]): string[] {
  return [...Map.groupBy(deals, ({ currency }) => currency?.toUpperCase() ?? null)].flatMap(
    ([currency, some]) => {
      const amounts = some.map(({ amount }) => Number(amount)).filter(Number.isFinite)
      const sum = amounts.reduce((total, amount) => total + amount, 0)
      return sum === 0 ? [] : (formatAmount(String(sum), currency) ?? [])
    },
  )
}

function digestLine({ deal, headline, late }: MessageEntry, lengths: Lengths): Part[] {
  const name = oneLine(deal.name ?? '', lengths.name) || 'Unnamed deal'
  const from = oneLine(headline.from ?? '', lengths.label)
  const to = oneLine(headline.to, lengths.label)
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

/** Plain text, or another part of a rich text. */
type Part = string | RichText

/**
 * Slack shows these texts literally. Never write text from the CRM as `mrkdwn`: its `*`, `_` and
 * addresses cannot be escaped.
 */
function richText(parts: readonly Part[]) {
  const elements: RichText[] = []
  let plain: { type: 'text'; text: string } | undefined
  for (const part of parts) {
    if (typeof part !== 'string') {
      elements.push(part)
      plain = undefined
    } else if (plain !== undefined) plain.text += part
    else {
      plain = { type: 'text', text: part }
      elements.push(plain)
    }
  }
  const section = { type: 'rich_text_section' as const, elements }
  return { type: 'rich_text' as const, elements: [section] satisfies [unknown] }
}

function context(texts: readonly string[]) {
  const elements = texts.map((text) => ({ type: 'plain_text' as const, text }))
  return { type: 'context' as const, elements }
}

function bold(text: string): RichText {
  return { type: 'text', text, style: { bold: true } }
}

/** Facts that are not known are left out. */
function joinFacts(facts: ReadonlyArray<string | Part[] | false | null | undefined>): Part[] {
  const known = facts.flatMap((fact) => (fact ? [[fact].flat()] : []))
  return known.flatMap((fact, at) => (at === 0 ? fact : ['  ·  ', ...fact]))
}

/** Slack shows the time in the reader's time zone. */
function lateFact(happenedAt: Date): Part[] {
  const timestamp = Math.floor(happenedAt.getTime() / 1000)
  const iso = happenedAt.toISOString()
  const fallback = `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`
  const format = '{date_short_pretty} {time}'
  return ['late: from ', { type: 'date', timestamp, format, fallback }]
}

/** Escapes a text for Slack. Otherwise a deal named `<!channel>` would notify the whole channel. */
function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function wordingOf(ruleId: AvailableRuleId): string {
  const rule = ruleCatalogue.flatMap(({ rules }) => [...rules]).find(({ id }) => id === ruleId)
  return rule === undefined ? ruleId : rule.when
}

/**
 * Turns a text into one line of at most `maxLength` characters. It loses its direction marks, which could
 * reverse what follows it.
 */
export function oneLine(text: string, maxLength: number): string {
  const line = text
    .toWellFormed()
    .replace(/\p{Bidi_Control}/gu, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  const characters = Array.from(line)
  return characters.length <= maxLength ? line : `${characters.slice(0, maxLength - 1).join('')}…`
}
