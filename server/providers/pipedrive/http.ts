import ky, { type HTTPError } from 'ky'
import * as v from 'valibot'
import { basicAuth } from '../basic-auth.ts'
import { askedWaitMs, oneTry, type ProviderSettings, type Timeouts } from '../calls.ts'
import { answerOf, asProviderError, json, unlessMissing } from '../crm-answers.ts'
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

const errorAnswer = v.object({ error: v.optional(v.string()), message: v.optional(v.string()) })
const nextPage = v.object({ next_cursor: v.nullish(v.string()) })

/** The reason of an error that says that something does not exist. */
export const missing = 'not_found'
/** A single deal may be hidden from the user. Lists only lack such deals, so a refused list is about the user. */
export const forbidden = 'forbidden'
/** The company's trial has ended, or it does not pay. */
export const notPaid = 'payment_required'
/** The app has not been given the scope of this call. */
export const noScope = 'scope_and_url_mismatch'

/** Undefined if the user may not see what is read. */
export const ifVisible = <Answer>(read: Promise<Answer>) =>
  unlessMissing(read, [missing, forbidden])

/** Lists of version 1 may be null if they are empty. */
export const listOf = <Item>(item: v.GenericSchema<unknown, Item>) => v.nullish(v.array(item), [])

/** The account of a call that asks which company it is. It counts towards no limit of ours. */
export const notKnownYet = ''

interface CallOptions {
  method?: 'GET' | 'POST' | 'DELETE'
  body?: object
  learn?: (headers: Headers) => void
}

/** Creates the functions that call Pipedrive. They try once, because the relay itself retries. */
export function createPipedriveHttp(
  settings: ProviderSettings,
  timeouts: Timeouts,
  shared?: SharedCounts,
) {
  const client = { ...json, Authorization: basicAuth(settings.clientId, settings.clientSecret) }
  const ofCompanies = createCallLimiter(limit, undefined, shared)

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
      const body = new URLSearchParams(form)
      return await ofPipedrive(stage, () => {
        const request = ky.post(url, { body, headers: client, ...oneTry(timeoutMs) })
        return answerOf('pipedrive', stage, shape, request)
      })
    },

    /**
     * Calls the API at the company's address. Waits for the limits. @throws ProviderError
     * @param data the shape of the answer's data.
     * @returns the data, and where the next page of a list begins.
     */
    async call<Data>(
      access: CrmAccess,
      name: keyof typeof calls,
      path: string,
      data: v.GenericSchema<unknown, Data>,
      { method = 'GET', body, learn }: CallOptions = {},
    ): Promise<{ data: Data; next: string | undefined }> {
      const { accountId, accessToken, apiUrl } = access
      const limiter = accountId === notKnownYet ? undefined : ofCompanies
      await limiter?.enter(access, calls[name].tokens)
      const shape = v.object({ data, additional_data: v.nullish(nextPage) })
      const headers = { ...json, Authorization: `Bearer ${accessToken}` }
      const send = () => {
        const options = { method, headers, ...(body && { json: body }), ...oneTry(timeouts.callMs) }
        const request = ky(`${apiUrl}/api/${path}`, options)
        return answerOf('pipedrive', 'read', shape, request, (headers, status) => {
          learn?.(headers)
          if (status !== 429) limiter?.learn(accountId, headers)
        })
      }
      const answer = await ofPipedrive('read', send, {
        waitMs: (headers) => limiter?.refused(accountId, headers),
        isOfUser: name === 'deals',
      })
      return { data: answer.data, next: answer.additional_data?.next_cursor || undefined }
    },
  }
}

export type PipedriveHttp = ReturnType<typeof createPipedriveHttp>

/**
 * Pipedrive's code in an error's body. Most of them are texts: 'Invalid grant: refresh_token is invalid' is invalid_grant.
 * Undefined if the body is not Pipedrive's.
 */
export function codeIn(body: unknown): string | undefined {
  const { error, message } = v.is(errorAnswer, body) ? body : {}
  const text = error && /^[a-z_]+$/.test(error) ? error : (message ?? error)
  return text?.split(':')[0]?.trim().toLowerCase().replaceAll(/\W+/g, '_')
}

/**
 * @param options `waitMs`: the wait after a 429, if the limiter knows it. `isOfUser`: a 403 is about the user, and not
 * about what is read.
 */
function ofPipedrive<T>(
  stage: ProviderError['stage'],
  call: () => Promise<T>,
  {
    waitMs,
    isOfUser = false,
  }: { waitMs?: (headers: Headers) => number | undefined; isOfUser?: boolean } = {},
): Promise<T> {
  function errorOf({ data, response: { status, headers } }: HTTPError): ProviderError {
    const failed = (kind: ProviderError['kind'], reason = `status_${status}`, ms?: number) =>
      new ProviderError('pipedrive', stage, kind, reason, ms)
    if (status === 429) {
      const ms = waitMs?.(headers) ?? askedWaitMs(headers, withoutRetryAfterMs)
      return failed('unreachable', 'rate_limited', ms)
    }
    const code = codeIn(data)
    if (stage !== 'read') {
      // A refused refresh breaks the connection. So only `invalid_grant` counts there. A proxy's page or a wrong
      // setting may be temporary.
      const isRefused = status < 500 && (stage !== 'refresh' || code === 'invalid_grant')
      return failed(isRefused ? 'refused' : 'unreachable', code)
    }
    if (status === 401) return failed('unauthorized', code)
    // A page of a proxy says nothing about a deal.
    if (Object(data).success !== false) return failed('unreachable')
    if (status === 404 || status === 410) return failed('unreachable', missing)
    if (status === 402) return failed('refused', notPaid)
    if (status !== 403) return failed('unreachable', code)
    if (code?.includes('scope')) return failed('refused', noScope)
    return failed(isOfUser ? 'refused' : 'unreachable', forbidden)
  }
  return asProviderError('pipedrive', stage, { errorOf, missing }, call)
}
