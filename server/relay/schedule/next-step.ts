/** What a channel needs after the work on its next delivery. */
export type NextStep =
  | { kind: 'go on' }
  | { kind: 'rest'; ms: number }
  /** The channel has no pending delivery, or this process has lost its lease. */
  | { kind: 'done' }

export const goOn: NextStep = { kind: 'go on' }
export const done: NextStep = { kind: 'done' }
export const whileLeased = (isLeased: boolean): NextStep => (isLeased ? goOn : done)
