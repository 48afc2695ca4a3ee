import { visible } from '../../contract/visible.ts'

// Makes the CRM's text harmless, because anyone in the account can write it.

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

/** What Unicode writes from right to left: letters, and Arabic digits (the ranges of DerivedBidiClass.txt). */
const rightToLeft =
  /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u

/**
 * Like `oneLine`, for a text of others in our sentence. A right-to-left text would swap places with the words beside it:
 * 'from → to' would read 'to → from'. It is wrapped in isolating characters (U+2068, U+2069), so that its direction does
 * not move the text around it. U+200E stands before it, because `dir="auto"` takes a line's direction from its first letter.
 * Other texts need neither, so most messages have no invisible characters.
 */
export function inSentence(text: string, maxLength: number): string {
  const line = oneLine(text, maxLength)
  return rightToLeft.test(line) ? `\u200E\u2068${line}\u2069` : line
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
