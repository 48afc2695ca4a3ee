import ky, { type HTTPError } from 'ky'
import * as v from 'valibot'
import { askedWaitMs, oneTry, type ProviderSettings, type Timeouts } from '../calls.ts'
import { answerOf, asProviderError, json } from '../crm-answers.ts'
import { createCallLimiter, type SharedCounts } from '../limiter.ts'
import type { CrmAccess } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import { limit } from './limits.ts'

/** What each call costs of the company's tokens of a day, and the scope that it needs, by Pipedrive's documents. */
export const calls = {
  me: { tokens: 2, scope: 'base' },
  deal: { tokens: 1, scope: 'deals:read' },
  deals: { tokens: 10, scope: 'deals:read' },
  stages: { tokens: 5, scope: 'deals:read' },
  pipelines: { tokens: 5, scope: 'deals:read' },
  changelog: { tokens: 20, scope: 'recents:read' },
  user: { tokens: 2, scope: 'users:read' },
  webhooks: { tokens: 10, scope: 'webhooks:full' },
  makeWebhook: { tokens: 10, scope: 'webhooks:full' },
  deleteWebhook: { tokens: 6, scope: 'webhooks:full' },
} as const

/** Burst limits are for each two seconds. */
const withoutRetryAfterMs = 2_000

const errorAnswer = v.object({
  success: v.optional(v.boolean()),
  error: v.optional(v.string()),
  message: v.optional(v.string()),
})

/** The reason of an error after which a deal is as good as missing. */
export const missing = 'not_found'
/** A deal may be hidden from the user. What lists contain is never so. */
export const hidden = 'forbidden'
/** The app has not been given the scope of this call. */
export const noScope = 'scope_and_url_mismatch'

interface CallOptions {
  method?: 'GET' | 'POST' | 'DELETE'
  body?: object
  timeoutMs?: number
  learn?: (headers: Headers) => void
}

/** Creates the functions that call Pipedrive. They try once, because the relay itself retries. */
export function createPipedriveHttp(
  settings: ProviderSettings,
  timeouts: Timeouts,
  shared?: SharedCounts,
) {
  const limiter = createCallLimiter(limit, undefined, shared)

  return {
    /** POSTs a form to the OAuth server. @throws ProviderError */
    async postOAuth<Answer>(
      path: string,
      form: Record<string, string>,
      stage: ProviderError['stage'],
      shape: v.GenericSchema<unknown, Answer>,
      timeoutMs = timeouts.callMs,
    ): Promise<Answer> {
      const url = `${settings.apiUrl}/oauth/${path}`
      const Authorization = basicAuth(settings.clientId, settings.clientSecret)
      return await ofPipedrive(stage, () => {
        const headers = { ...json, Authorization }
        const request = ky.post(url, {
          body: new URLSearchParams(form),
          headers,
          ...oneTry(timeoutMs),
        })
        return answerOf('pipedrive', stage, shape, request)
      })
    },

    /** Calls the API at the company's address. Waits for the limits. @throws ProviderError */
    async call<Answer>(
      access: CrmAccess,
      name: keyof typeof calls,
      path: string,
      shape: v.GenericSchema<unknown, Answer>,
      { method = 'GET', body, timeoutMs = timeouts.callMs, learn }: CallOptions = {},
    ): Promise<Answer> {
      await limiter.enter(access, calls[name].tokens)
      return await ofPipedrive('read', () => {
        const request = ky(`${access.apiUrl}/api/${path}`, {
          method,
          headers: { ...json, Authorization: `Bearer ${access.accessToken}` },
          ...(body !== undefined && { json: body }),
          ...oneTry(timeoutMs),
        })
        return answerOf('pipedrive', 'read', shape, request, (headers) => {
          learn?.(headers)
          limiter.learn(access.accountId, headers)
        })
      }).catch((error: ProviderError) => {
        if (error.retryAfterMs !== undefined) limiter.pause(access.accountId, error.retryAfterMs)
        throw error
      })
    },
  }
}

export type PipedriveHttp = ReturnType<typeof createPipedriveHttp>

export const basicAuth = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

/**
 * Pipedrive's code in an error's body. Most of them are texts: 'Invalid grant: refresh_token is invalid' is invalid_grant.
 * Undefined if the body is not Pipedrive's.
 */
export function codeIn(body: unknown): string | undefined {
  const { success, output } = v.safeParse(errorAnswer, body)
  if (!success) return undefined
  const { error, message } = output
  const text = error && /^[a-z]+(_[a-z]+)*$/.test(error) ? error : (message ?? error)
  const [words = ''] = text?.split(':') ?? []
  return words.trim().toLowerCase().replaceAll(/\W+/g, '_') || undefined
}

function ofPipedrive<T>(stage: ProviderError['stage'], call: () => Promise<T>): Promise<T> {
  const errorOf = (error: HTTPError) => errorIn(stage, error)
  return asProviderError('pipedrive', stage, { errorOf, missing }, call)
}

function errorIn(stage: ProviderError['stage'], { data, response }: HTTPError): ProviderError {
  const { status, headers } = response
  const failed = (kind: ProviderError['kind'], reason = `status_${status}`, waitMs?: number) =>
    new ProviderError('pipedrive', stage, kind, reason, waitMs)
  if (status === 429) {
    return failed('unreachable', 'rate_limited', askedWaitMs(headers, withoutRetryAfterMs))
  }
  const code = codeIn(data)
  if (stage !== 'read') {
    // A refused refresh breaks the connection. So only a word about the token counts there. A proxy's page or a mistake
    // in our settings may be temporary.
    const isRefused = status < 500 && (stage !== 'refresh' || code === 'invalid_grant')
    return failed(isRefused ? 'refused' : 'unreachable', code)
  }
  if (status === 401) return failed('unauthorized', code)
  // A page of a proxy says nothing about a deal.
  if (!v.is(v.object({ success: v.literal(false) }), data)) return failed('unreachable')
  if (status === 404 || status === 410) return failed('unreachable', missing)
  if (status !== 403) return failed('unreachable', code)
  return code?.includes('scope') ? failed('refused', noScope) : failed('unreachable', hidden)
}
