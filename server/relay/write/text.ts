import type { AvailableRuleId } from '../../../contract/rules.ts'
import { ruleCatalogue } from '../../../contract/rules.ts'
import { visible } from '../../../contract/visible.ts'
import type { Part } from '../../providers/chat-message.ts'

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

/** A string is text that is not bold. */
export type Piece = string | Part

/** Joins strings, and leaves out what is empty. */
export function paragraph(pieces: readonly Piece[]): Part[] {
  const parts: Part[] = []
  let plain: { type: 'text'; text: string } | undefined
  for (const piece of pieces) {
    if (piece === '' || (typeof piece !== 'string' && 'text' in piece && piece.text === ''))
      continue
    if (typeof piece !== 'string') {
      parts.push(piece)
      plain = undefined
    } else if (plain !== undefined) plain.text += piece
    else {
      plain = { type: 'text', text: piece }
      parts.push(plain)
    }
  }
  return parts
}

export const bold = (text: string): Part => ({ type: 'text', text, bold: true })

/** Facts that are not known are left out. */
export function joinFacts(
  facts: ReadonlyArray<string | Piece[] | false | null | undefined>,
): Piece[] {
  const known = facts.flatMap((fact) => (fact ? [[fact].flat()] : []))
  return known.flatMap((fact, at) => (at === 0 ? fact : ['  ·  ', ...fact]))
}

export const lateFact = (happenedAt: Date): Piece[] => [
  'late: from ',
  { type: 'date', at: happenedAt, withTime: true },
]

export const closeDateFact = (closeDate: Date): Piece[] => [
  'Close date: ',
  { type: 'date', at: closeDate, withTime: false },
]

/** Says under which rule a change is sent, as the dashboard does. */
export function wordingOf(ruleId: AvailableRuleId): string {
  const rule = ruleCatalogue.flatMap(({ rules }) => [...rules]).find(({ id }) => id === ruleId)
  return `Notify me when ${rule === undefined ? ruleId : rule.when}`
}
