import { setImmediate as nextTurn } from 'node:timers/promises'
import ky, { HTTPError } from 'ky'
import * as v from 'valibot'
import { errorCode } from '../../log.ts'
import {
  AnswerTooLarge,
  askedWaitMs,
  counted,
  oneTry,
  outcomeOfError,
  type ProviderSettings,
  type Timeouts,
  understood,
} from '../calls.ts'
import { createCallLimiter, type SharedCounts } from '../limiter.ts'
import type { CrmAccess } from '../provider.ts'
import { answerTooLarge, ProviderError } from '../provider-error.ts'
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

// ky would ask for text/*.
const json = { Accept: 'application/json' }

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
      return await asProviderError(stage, async () => {
        const text = await ky.post(url, { body, headers: json, ...oneTry(timeoutMs) }).text()
        const answer = text === '' ? undefined : parseJson(text, stage)
        return understood('hubspot', stage, shape, answer)
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
      return await asProviderError('read', async () => {
        const request = ky(`${settings.apiUrl}${path}`, {
          headers: { ...json, Authorization: `Bearer ${access.accessToken}` },
          ...(body !== undefined && { method: 'POST', json: body }),
          ...oneTry(timeouts.callMs, mostBytes),
        })
        // A refusal may be the only answer that names the limit.
        const { headers } = await request.catch((error) => {
          if (error instanceof HTTPError) learnLimit(error.response.headers)
          throw error
        })
        learn?.(headers)
        learnLimit(headers)
        // Read the text from the request, because its timeout includes the body. The response has no timeout.
        const text = await request.text()
        // Each of these steps takes tens of milliseconds for a large answer. Between them, other work has its turn.
        const parsed = parseJson(text, 'read')
        await nextTurn()
        const answer = understood('hubspot', 'read', shape, parsed)
        await nextTurn()
        return answer
      }).catch((error: ProviderError) => {
        if (error.retryAfterMs !== undefined) limiter.pause(access.accountId, error.retryAfterMs)
        throw error
      })
    },

    async uninstall(accessToken: string): Promise<void> {
      await asProviderError('uninstall', () =>
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

export async function unlessMissing<Answer>(
  read: Promise<Answer>,
  codes: readonly string[],
): Promise<Answer | undefined> {
  try {
    return await read
  } catch (error) {
    if (error instanceof ProviderError && codes.includes(error.reason ?? '')) return undefined
    throw error
  }
}

// ky's errors contain the request with its secrets. So convert them before they leave this file.
function asProviderError<T>(stage: ProviderError['stage'], call: () => Promise<T>): Promise<T> {
  return counted('hubspot', stage, () => converted(stage, call), {
    ofError: (error) => (Object(error).reason === notFound ? 'not_found' : outcomeOfError(error)),
  })
}

async function converted<T>(stage: ProviderError['stage'], call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof ProviderError) throw error
    if (error instanceof AnswerTooLarge) {
      throw new ProviderError('hubspot', stage, 'nonsense', answerTooLarge)
    }
    if (!(error instanceof HTTPError)) {
      const code = errorCode(error)
      throw new ProviderError('hubspot', stage, 'unreachable', undefined, undefined, { code })
    }
    const refusal = v.safeParse(errorAnswer, error.data)
    const { code: reason, category } = refusal.success ? refusal.output : {}
    const { status, headers } = error.response
    const wait = waits[status]
    if (wait !== undefined) {
      const ms = askedWaitMs(headers, wait.ms)
      throw new ProviderError('hubspot', stage, 'unreachable', wait.reason, ms)
    }
    if (stage === 'read' && status === 401) {
      throw new ProviderError('hubspot', stage, 'unauthorized', reason)
    }
    // Every error of the CRM API has a category. An answer without one is not from HubSpot.
    const isForbidden = status === 403 && category !== undefined
    const isRefused = stage === 'read' ? isForbidden : status < 500 && isRefusal(stage, reason)
    throw isRefused
      ? new ProviderError('hubspot', stage, 'refused', reason)
      : new ProviderError('hubspot', stage, 'unreachable', reason ?? `status_${status}`)
  }
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

function parseJson(text: string, stage: ProviderError['stage']): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProviderError('hubspot', stage, 'nonsense')
  }
}
