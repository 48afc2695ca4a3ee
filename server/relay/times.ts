import { askAgainMs } from '../people/refusals.ts'

/** How long the relay waits, in milliseconds. Tests use shorter times. */
export const relayTimes = {
  /** A CRM adds contacts within seconds. A deal without contacts is read again after this time. */
  lookAgainMs: 5_000,
  /** The wait after the first failed try. It doubles with each further try. */
  firstRetryMs: 1_000,
  /** The wait before a provider that has refused a connection is asked again. */
  askAgainMs,
  /** How often the relay looks for due channels if nobody calls `wake`. */
  pollMs: 500,
}

export type RelayTimes = Readonly<typeof relayTimes>
