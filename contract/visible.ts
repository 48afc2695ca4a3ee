/**
 * Matches a text of which a reader sees something: more than spaces, control characters, marks without a letter, what
 * Unicode itself shows as nothing (such as U+200B or U+3164), and the few blank signs that it does not count as such.
 */
export const visible =
  /[^\p{Z}\p{Cc}\p{M}\p{Default_Ignorable_Code_Point}\u2800\uFFF9-\uFFFB\u{1D159}]/u

/** Returns undefined for anything but a text of which a reader sees something. */
export function visibleText(value: unknown): string | undefined {
  return typeof value === 'string' && visible.test(value) ? value : undefined
}
