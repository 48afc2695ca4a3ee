import { countIn } from '../crm-answers.ts'
import type { Limit } from '../limiter.ts'

/** The largest plan has 480 calls in two seconds. A larger number is that of another interval. */
const mostCalls = 1_000
/** No company has so many. The database's integers end soon after it. */
const mostTokens = 2_000_000_000

/**
 * The limits of the smallest plan, until Pipedrive's headers name others. Pipedrive counts calls for each user. Here
 * they are counted for the whole company, which is stricter. Tokens are shared by all programs of the company. No
 * document names the headers of the day, so they may be missing.
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
