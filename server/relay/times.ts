import { askAgainMs } from '../people/refusals.ts'

/** How long the relay waits, in milliseconds. Tests use shorter times. */
export interface RelayTimes {
  /** A CRM adds contacts within seconds. A deal without contacts is read again after this time. */
  lookAgainMs: number
  /** The wait after the first failed try. It doubles with each further try. */
  firstRetryMs: number
  /** The wait before a provider that has refused a connection is asked again. */
  askAgainMs: number
  /** How often the relay looks for due channels if nobody calls `wake`. */
  pollMs: number
}

export const relayTimes: Readonly<RelayTimes> = {
  lookAgainMs: 5_000,
  firstRetryMs: 1_000,
  askAgainMs,
  pollMs: 500,
}
