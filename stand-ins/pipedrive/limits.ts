import type { Context, MiddlewareHandler } from 'hono'
import { countCalls } from '../tokens.ts'
import type { StandInUser } from './company.ts'

/** The budget of a company with one seat of the smallest plan. All users and apps share it. */
export const dailyTokens = 30_000
const burst = { calls: 80, intervalMs: 2_000 }

/** What the handler of a call knows. */
export interface Env {
  Variables: { user: StandInUser }
}

/** The tokens that the company has used today. A day ends at midnight, UTC. */
export class DailyBudget {
  #used = 0
  #day = ''

  used(): number {
    const day = new Date().toISOString().slice(0, 10)
    if (day !== this.#day) this.#used = 0
    this.#day = day
    return this.#used
  }

  /** @returns whether there were so many tokens left. */
  take(tokens: number): boolean {
    const used = this.used() + tokens
    if (used <= dailyTokens) this.#used = used
    return used <= dailyTokens
  }

  exhaust(): void {
    this.take(dailyTokens - this.used())
  }

  renew(): void {
    this.#used = 0
  }
}

/** Creates the guard of the calls that need a scope and cost tokens. A refused call costs nothing. */
export function createGuard(
  users: readonly StandInUser[],
  budget: DailyBudget,
): (scope: string, tokens: number) => MiddlewareHandler<Env> {
  const limits = new Map(users.map(({ id }) => [id, countCalls(burst)]))

  return (scope, cost) => async (c, next) => {
    const [, given = ''] = c.req.header('Authorization')?.match(/^Bearer (.+)$/) ?? []
    for (const user of users) {
      const token = user.tokens.read(given)
      if (typeof token === 'string' || token.use !== 'access') continue
      const remaining = limits.get(user.id)?.()
      const isWithin = remaining !== undefined && budget.take(cost)
      const tell = (name: string, value: number) => c.header(name, String(value))
      tell('x-ratelimit-limit', burst.calls)
      tell('x-ratelimit-remaining', remaining ?? 0)
      tell('x-ratelimit-reset', burst.intervalMs / 1000)
      // Not documented, but sent.
      tell('x-daily-ratelimit-token-limit', dailyTokens)
      tell('x-daily-ratelimit-token-remaining', dailyTokens - budget.used())
      if (!isWithin) return pipedriveError(c, 429, 'request over limit')
      if (!token.scopes?.includes(scope)) return pipedriveError(c, 403, 'Scope and URL mismatch')
      c.set('user', user)
      return await next()
    }
    return pipedriveError(c, 401, 'unauthorized access')
  }
}

export function pipedriveError(
  c: Context,
  status: 400 | 401 | 403 | 404 | 422 | 429,
  error: string,
): Response {
  return c.json({ success: false, error, errorCode: status }, status)
}
