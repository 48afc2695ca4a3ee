/**
 * One line of the report: what is right, or what is wrong and what to do. It contains no secret. What others answered
 * is in it only as a code or as part of a URL, because a terminal would obey control characters.
 */
export interface Finding {
  /** `warning`: Dealbell works, but not as a user may expect. */
  kind: 'right' | 'warning' | 'wrong'
  text: string
}

export const right = (text: string): Finding => ({ kind: 'right', text })
export const warning = (text: string): Finding => ({ kind: 'warning', text })
export const wrong = (text: string): Finding => ({ kind: 'wrong', text })

/** A code for the report. Anything else, such as a page of a proxy, is left out. */
export function codeOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : undefined
}
