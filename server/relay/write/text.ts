import type { AvailableRuleId } from '../../../contract/rules.ts'
import { ruleCatalogue } from '../../../contract/rules.ts'
import type { Part } from '../../providers/chat-message.ts'
import { inSentence } from '../../providers/foreign-text.ts'

// The parts of a message's text.

export const longestName = 150
export const longestLabel = 80

export function nameOf({ name }: { name: string | null }, maxLength: number): string {
  return inSentence(name ?? '', maxLength) || 'Unnamed deal'
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
