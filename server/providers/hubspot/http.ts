import ky, { type HTTPError } from 'ky'
import * as v from 'valibot'
import { askedWaitMs, oneTry, type ProviderSettings, type Timeouts } from '../calls.ts'
import { answerOf, asProviderError, json } from '../crm-answers.ts'
import { createCallLimiter, type SharedCounts } from '../limiter.ts'
import type { CrmAccess } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import { callLimit, searchLimit } from './limits.ts'

// `status` is the most precise code (BAD_REDIRECT_URI). But if it is 'error', use `category`. An error of
// the CRM API need not have a `status`.
const errorAnswer = v.pipe(
  v.object({
    status: v.optional(v.string()),
    error: v.optional(v.string()),
    category: v.optional(v.string()),
  }),
  v.transform(({ status, error, category }) => ({
    code: status === undefined || status === 'error' ? (error ?? category) : status,
    category,
  })),
)

/** Answers that ask for a wait: their names in the log, and the wait without Retry-After. */
const waits: Readonly<Record<number, { reason: string; ms: number }>> = {
  // The account got too many calls at once. It is locked for two seconds.
  423: { reason: 'locked', ms: 2_000 },
  // HubSpot counts calls in windows of ten seconds.
  429: { reason: 'rate_limited', ms: 10_000 },
  // HubSpot moves the account to another data centre, for up to a day.
  477: { reason: 'account_is_moving', ms: 60_000 },
}

const isCountedApart = /\/search$|^\/crm\/associations\//

/**
 * Creates the functions that call HubSpot's API. They try once, because the relay itself retries.
 */
export function createHubspotHttp(
  settings: ProviderSettings,
  timeouts: Timeouts,
  shared?: SharedCounts,
) {
  const client = { client_id: settings.clientId, client_secret: settings.clientSecret }
  const callLimiter = createCallLimiter(callLimit, undefined, shared)
  const searchLimiter = createCallLimiter(searchLimit, undefined, shared)

  return {
    /** POSTs a form to the OAuth API 2026-03. @throws ProviderError */
    async postOAuth<Answer>(
      path: string,
      form: Record<string, string>,
      stage: ProviderError['stage'],
      shape: v.GenericSchema<unknown, Answer>,
      timeoutMs = timeouts.callMs,
    ): Promise<Answer> {
      const url = `${settings.apiUrl}/oauth/2026-03/${path}`
      const body = new URLSearchParams({ ...client, ...form })
      return await ofHubspot(stage, () => {
        const request = ky.post(url, { body, headers: json, ...oneTry(timeoutMs) })
        return answerOf('hubspot', stage, shape, request)
      })
    },

    /**
     * Reads from the CRM API: a GET, or a POST of `body`. Waits for the account's limit. Batch reads of associations
     * also wait for this limit, although HubSpot has a separate limit for them. @throws ProviderError
     */
    async read<Answer>(
      access: CrmAccess,
      path: string,
      shape: v.GenericSchema<unknown, Answer>,
      {
        body,
        learn,
        mostBytes,
      }: { body?: object; learn?: (headers: Headers) => void; mostBytes?: number } = {},
    ): Promise<Answer> {
      const limiter = path.endsWith('/search') ? searchLimiter : callLimiter
      // Searches and association reads have their own limits. Their headers say nothing about this limit.
      const learnLimit = (headers: Headers) => {
        if (!isCountedApart.test(path)) limiter.learn(access.accountId, headers)
      }
      await limiter.enter(access)
      return await ofHubspot('read', () => {
        const request = ky(`${settings.apiUrl}${path}`, {
          headers: { ...json, Authorization: `Bearer ${access.accessToken}` },
          ...(body !== undefined && { method: 'POST', json: body }),
          ...oneTry(timeouts.callMs, mostBytes),
        })
        return answerOf('hubspot', 'read', shape, request, (headers) => {
          learn?.(headers)
          learnLimit(headers)
        })
      }).catch((error: ProviderError) => {
        if (error.retryAfterMs !== undefined) limiter.pause(access.accountId, error.retryAfterMs)
        throw error
      })
    },

    async uninstall(accessToken: string): Promise<void> {
      await ofHubspot('uninstall', () =>
        ky.delete(`${settings.apiUrl}/appinstalls/2026-03/external-install`, {
          headers: { ...json, Authorization: `Bearer ${accessToken}` },
          ...oneTry(timeouts.revokeMs),
        }),
      )
    },
  }
}

export type HubspotHttp = ReturnType<typeof createHubspotHttp>

/** Only with this code, HubSpot says that something does not exist. A 404 may also be a proxy's page. */
export const notFound = 'OBJECT_NOT_FOUND'

function ofHubspot<T>(stage: ProviderError['stage'], call: () => Promise<T>): Promise<T> {
  const errorOf = (error: HTTPError) => errorIn(stage, error)
  return asProviderError('hubspot', stage, { errorOf, missing: notFound }, call)
}

function errorIn(stage: ProviderError['stage'], { data, response }: HTTPError): ProviderError {
  const refusal = v.safeParse(errorAnswer, data)
  const { code: reason, category } = refusal.success ? refusal.output : {}
  const { status, headers } = response
  const wait = waits[status]
  if (wait !== undefined) {
    const ms = askedWaitMs(headers, wait.ms)
    return new ProviderError('hubspot', stage, 'unreachable', wait.reason, ms)
  }
  if (stage === 'read' && status === 401) {
    return new ProviderError('hubspot', stage, 'unauthorized', reason)
  }
  // Every error of the CRM API has a category. An answer without one is not from HubSpot.
  const isForbidden = status === 403 && category !== undefined
  const isRefused = stage === 'read' ? isForbidden : status < 500 && isRefusal(stage, reason)
  return isRefused
    ? new ProviderError('hubspot', stage, 'refused', reason)
    : new ProviderError('hubspot', stage, 'unreachable', reason ?? `status_${status}`)
}

/** The account revoked the access, or no longer exists. */
const refreshRefusals = new Set(['BAD_REFRESH_TOKEN', 'invalid_grant', 'BAD_HUB', 'access_denied'])

/**
 * Whether this 4xx of the OAuth API is a refusal, so that another try cannot help. A refused refresh breaks
 * the connection. So only HubSpot's own codes about the token count there. A proxy's page or a mistake in
 * our settings may be temporary.
 */
function isRefusal(stage: ProviderError['stage'], reason: string | undefined): boolean {
  return stage !== 'refresh' || refreshRefusals.has(reason ?? '')
}
