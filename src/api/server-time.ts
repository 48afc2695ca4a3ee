/**
 * The browser's clock may be wrong by hours. So 'now' is the server's, as far as its answers tell: `Date` is part of
 * HTTP, and a backend of another origin may hide it.
 */

/** By how much the server's clock is ahead of the browser's, in milliseconds. */
let aheadMs = 0
/** The newest `Date` of an answer. An earlier one is of an answer that was on its way for long. */
let newest = 0

/** A smaller difference may be the way of the answer. */
const noticeableMs = 30_000

/** Learns what time it is from an answer that has just arrived. */
export function noticeDate({ headers }: Response): void {
  const date = Date.parse(headers.get('Date') ?? '')
  // A cache keeps the `Date` of the first answer.
  const mayBeOld = headers.has('Age') || /max-age=[1-9]/.test(headers.get('Cache-Control') ?? '')
  if (Number.isNaN(date) || date < newest || mayBeOld) return
  newest = date
  const difference = date - Date.now()
  aheadMs = Math.abs(difference) < noticeableMs ? 0 : difference
}

/** The time by the server's clock, in milliseconds since 1970. @param at a time by the browser's clock. */
export const serverTime = (at = Date.now()): number => at + aheadMs
