import { countIn } from '../crm-answers.ts'
import type { Limit } from '../limiter.ts'

const intervalMs = 10_000

/**
 * Calls of one app in one account, until HubSpot's headers name another limit: 100 with private
 * distribution and a small subscription, 110 with marketplace distribution. All processes together
 * have this limit.
 */
export const callLimit: Readonly<Limit> = {
  crm: 'hubspot',
  of: 'calls',
  calls: 100,
  intervalMs,
  shares: { fresh: 0.9, backlog: 0.8, spare: 0.4 },
  read(headers) {
    const calls = countIn(headers, 'X-HubSpot-RateLimit-Max')
    // Another interval than the documented ten seconds is another limit, such as that of a day.
    const isOurs = countIn(headers, 'X-HubSpot-RateLimit-Interval-Milliseconds') === intervalMs
    return {
      calls: isOurs ? calls : undefined,
      left: countIn(headers, 'X-HubSpot-RateLimit-Remaining'),
    }
  },
}

/** HubSpot takes five searches a second from all apps together. They do not count as other calls. */
export const searchLimit: Readonly<Limit> = {
  crm: 'hubspot',
  of: 'searches',
  calls: 4,
  intervalMs: 1_000,
  shares: { fresh: 1, backlog: 1, spare: 1 },
}
