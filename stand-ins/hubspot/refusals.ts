import { randomUUID } from 'node:crypto'
import type { Context, MiddlewareHandler } from 'hono'
import { countCalls, type StandInTokens } from '../tokens.ts'

/** HubSpot's limits for one app with marketplace distribution in one account. */
const callLimit = { calls: 110, intervalMs: 10_000, policy: 'TEN_SECONDLY_ROLLING' }
/** HubSpot counts searches apart. */
const searchLimit = { calls: 5, intervalMs: 1_000, policy: 'SECONDLY' }

/** What the access token of a call means, or why it is not valid. */
export function tokenOf(c: Context, tokens: StandInTokens) {
  const [, accessToken = ''] = c.req.header('Authorization')?.match(/^Bearer (.+)$/) ?? []
  return tokens.read(accessToken)
}

/**
 * Creates the guard of the calls that need a scope. Each call with a valid token counts, until the limit is reached. A
 * missing scope changes nothing.
 */
export function createGuard(tokens: StandInTokens): (scope: string) => MiddlewareHandler {
  const takeCall = countCalls(callLimit)
  const takeSearch = countCalls(searchLimit)

  return (scope) => async (c, next) => {
    const token = tokenOf(c, tokens)
    if (token === 'expired') {
      const message = 'The OAuth token used to make this call expired 1 second(s) ago.'
      return hubspotError(c, 401, 'EXPIRED_AUTHENTICATION', message)
    }
    if (typeof token === 'string' || token.use !== 'access') {
      return hubspotError(c, 401, 'INVALID_AUTHENTICATION', 'Authentication credentials not found.')
    }
    if (c.req.path.endsWith('/search')) {
      if (takeSearch() === undefined) return limited(c, searchLimit.policy)
    } else if (!c.req.path.includes('/crm/associations/')) {
      const remaining = takeCall()
      c.header('X-HubSpot-RateLimit-Max', String(callLimit.calls))
      c.header('X-HubSpot-RateLimit-Interval-Milliseconds', String(callLimit.intervalMs))
      c.header('X-HubSpot-RateLimit-Remaining', String(remaining ?? 0))
      if (remaining === undefined) return limited(c, callLimit.policy)
    }
    // A token of an earlier version does not name its scopes.
    if (token.scopes === undefined || token.scopes.includes(scope)) return await next()
    const message = "This app hasn't been granted all required scopes to make this call."
    const context = { requiredGranularScopes: [scope] }
    return hubspotError(c, 403, 'MISSING_SCOPES', message, { errors: [{ message, context }] })
  }
}

/** HubSpot's 429 has no category and promises no Retry-After. */
function limited(c: Context, policyName: string): Response {
  const message = `You have reached your ${policyName.toLowerCase()} limit.`
  const answer = { status: 'error', message, errorType: 'RATE_LIMIT', policyName }
  return c.json({ ...answer, correlationId: randomUUID(), requestId: randomUUID() }, 429)
}

/** An error of the CRM API. Those of the OAuth API have more fields. */
export function hubspotError(
  c: Context,
  httpStatus: 400 | 401 | 403 | 404,
  category: string,
  message: string,
  more: object = {},
): Response {
  const answer = { status: 'error', message, correlationId: randomUUID(), category, ...more }
  return c.json(answer, httpStatus)
}
