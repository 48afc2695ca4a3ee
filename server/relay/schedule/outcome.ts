/** What a channel needs after the work on its next delivery. */
export type Outcome =
  | { kind: 'go on' }
  | { kind: 'rest'; ms: number }
  /** The channel has no pending delivery, or this process has lost its lease. */
  | { kind: 'done' }

export const goOn: Outcome = { kind: 'go on' }
export const done: Outcome = { kind: 'done' }
export const whileLeased = (isLeased: boolean): Outcome => (isLeased ? goOn : done)
