/** How long the relay waits, in milliseconds. Tests use shorter times. */
export interface RelayTimes {
  /** A new deal's contacts follow within seconds, so a deal without any is read again this much later. */
  lookAgainMs: number
  /** The wait after the first failed try. It doubles with each further one. */
  firstRetryMs: number
  /** How often the relay looks for due channels when nothing rings. */
  pollMs: number
}

export const relayTimes: RelayTimes = { lookAgainMs: 5_000, firstRetryMs: 1_000, pollMs: 500 }
