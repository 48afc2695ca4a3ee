import { countIn } from '../crm-answers.ts'
import type { Limit } from '../limiter.ts'

/** The largest subscription has 480 calls in two seconds. A larger number is that of another interval. */
const mostCalls = 1_000
/** More than the largest company has. The database's numbers end there. */
const mostTokens = 2_000_000_000

/**
 * Calls and tokens of one account, as in the smallest subscription, until Pipedrive's headers name other limits. Pipedrive
 * counts calls for each user, and tokens for all programs of the company. The headers of the day are in no document, so they
 * may be missing.
 */
export const limit: Readonly<Limit> = {
  crm: 'pipedrive',
  of: 'calls',
  calls: 80,
  intervalMs: 2_000,
  shares: { fresh: 0.9, backlog: 0.8, spare: 0.4 },
  dayTokens: 30_000,
  read(headers) {
    const calls = countIn(headers, 'x-ratelimit-limit')
    return {
      calls: calls !== undefined && calls <= mostCalls ? calls : undefined,
      left: countIn(headers, 'x-ratelimit-remaining'),
      day: {
        most: tokensIn(headers, 'x-daily-ratelimit-token-limit') || undefined,
        left: tokensIn(headers, 'x-daily-ratelimit-token-remaining'),
      },
    }
  },
}

function tokensIn(headers: Headers, name: string): number | undefined {
  const tokens = countIn(headers, name)
  return tokens === undefined ? undefined : Math.min(Math.floor(tokens), mostTokens)
}
