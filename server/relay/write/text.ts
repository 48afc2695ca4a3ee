import type { AvailableRuleId } from '../../../contract/rules.ts'
import { ruleCatalogue } from '../../../contract/rules.ts'
import { visible } from '../../../contract/visible.ts'
import type { RichText } from '../../providers/chat-message.ts'

// The parts of a message's text. They make the CRM's text harmless, because anyone in the account can write it.

export const longestName = 150
export const longestLabel = 80

/**
 * Turns a text into one line of at most `maxLength` characters. It loses its direction marks, which could
 * reverse what follows it. It is empty if a reader would see nothing of it.
 */
export function oneLine(text: string, maxLength: number): string {
  const line = text
    .toWellFormed()
    .replace(/\p{Bidi_Control}/gu, '')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim()
  return visible.test(line) ? cut(line, maxLength) : ''
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** Cuts a text between what people take for characters: an emoji can have ten, and so can a letter with accents. */
export function cut(text: string, maxLength: number): string {
  const codePoints = Array.from(text)
  if (codePoints.length <= maxLength) return text
  let kept = ''
  let room = maxLength - 1
  for (const { segment } of graphemes.segment(text)) {
    room -= Array.from(segment).length
    if (room < 0) break
    kept += segment
  }
  // One letter may have thousands of accents. It loses them.
  return `${kept || codePoints[0]}…`
}

export function nameOf({ name }: { name: string | null }, maxLength: number): string {
  return oneLine(name ?? '', maxLength) || 'Unnamed deal'
}

export type Part = string | RichText

/**
 * Slack shows these texts literally. Never write text from the CRM as `mrkdwn`: its `*`, `_` and
 * addresses cannot be escaped.
 */
export function richText(parts: readonly Part[]) {
  const elements: RichText[] = []
  let plain: { type: 'text'; text: string } | undefined
  for (const part of parts) {
    // Slack refuses a message with an empty element.
    if (part === '' || (typeof part !== 'string' && 'text' in part && part.text === '')) continue
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

export function context(texts: readonly string[]) {
  const elements = texts.map((text) => ({ type: 'plain_text' as const, text }))
  return { type: 'context' as const, elements }
}

export function bold(text: string): RichText {
  return { type: 'text', text, style: { bold: true } }
}

/** Facts that are not known are left out. */
export function joinFacts(
  facts: ReadonlyArray<string | Part[] | false | null | undefined>,
): Part[] {
  const known = facts.flatMap((fact) => (fact ? [[fact].flat()] : []))
  return known.flatMap((fact, at) => (at === 0 ? fact : ['  ·  ', ...fact]))
}

/** Slack shows the time in the reader's time zone. */
export function lateFact(happenedAt: Date): Part[] {
  const iso = happenedAt.toISOString()
  const fallback = `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`
  return ['late: from ', date(happenedAt, '{date_short_pretty} {time}', fallback)]
}

/** Slack shows the day in the reader's time zone. */
export function closeDateFact(closeDate: Date): Part[] {
  const fallback = closeDate.toISOString().slice(0, 10)
  return ['Close date: ', date(closeDate, '{date_short_pretty}', fallback)]
}

function date(at: Date, format: string, fallback: string): RichText {
  return { type: 'date', timestamp: Math.floor(at.getTime() / 1000), format, fallback }
}

/** Escapes a text for Slack. Otherwise a deal named `<!channel>` would notify the whole channel. */
export function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** Says under which rule a change is sent, as the dashboard does. */
export function wordingOf(ruleId: AvailableRuleId): string {
  const rule = ruleCatalogue.flatMap(({ rules }) => [...rules]).find(({ id }) => id === ruleId)
  return `Notify me when ${rule === undefined ? ruleId : rule.when}`
}
