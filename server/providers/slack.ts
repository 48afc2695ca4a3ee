import {
  LogLevel,
  WebAPIHTTPError,
  WebAPIPlatformError,
  WebAPIRateLimitedError,
  WebClient,
} from '@slack/web-api'
import ky, { HTTPError } from 'ky'
import * as v from 'valibot'
import type { ProviderSettings } from '../env.ts'
import {
  type Chat,
  defaultTimeouts,
  type PostOutcome,
  type Provider,
  ProviderError,
  type Timeouts,
} from './provider.ts'

// `incoming-webhook` makes Slack itself ask for the channel, so the dashboard needs no picker.
const scopes = ['incoming-webhook', 'chat:write', 'channels:read']

const accessAnswer = v.object({
  access_token: v.pipe(v.string(), v.nonEmpty()),
  // Only when the app has turned token rotation on; seconds.
  refresh_token: v.optional(v.string()),
  expires_in: v.optional(v.number()),
  team: v.object({ id: v.string(), name: v.optional(v.string()) }),
  authed_user: v.optional(v.object({ id: v.optional(v.string()) })),
  incoming_webhook: v.object({ channel: v.string(), channel_id: v.string(), url: v.string() }),
})

// The client logs what it sends; its own lines would hold codes and tokens.
const silent = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  setLevel() {},
  setName() {},
  getLevel: () => LogLevel.ERROR,
}

export function createSlack(
  settings: ProviderSettings,
  timeouts: Timeouts = defaultTimeouts,
): Provider & Chat {
  /** @param token none for the calls that name the app itself. */
  function client(token: string | undefined, timeoutMs: number): WebClient {
    return new WebClient(token, {
      slackApiUrl: `${settings.apiUrl}/`,
      // The client waits for ever and tries ten times unless told otherwise.
      timeout: timeoutMs,
      retryConfig: { retries: 0 },
      rejectRateLimitedCalls: true,
      allowAbsoluteUrls: false,
      logger: silent,
    })
  }

  return {
    // Slack knows PKCE only for public clients, which keep no secret.
    authorizeUrl({ redirectUri, state }) {
      const url = new URL(settings.authorizeUrl)
      url.search = new URLSearchParams({
        client_id: settings.clientId,
        scope: scopes.join(','),
        redirect_uri: redirectUri,
        state,
      }).toString()
      return url.href
    },

    async exchange({ code, redirectUri }) {
      let answer: unknown
      try {
        answer = await client(undefined, timeouts.callMs).oauth.v2.access({
          client_id: settings.clientId,
          client_secret: settings.clientSecret,
          code,
          redirect_uri: redirectUri,
        })
      } catch (error) {
        throw providerError('exchange', error)
      }
      const access = v.safeParse(accessAnswer, answer)
      if (!access.success) throw new ProviderError('slack', 'exchange', 'nonsense')
      const { access_token, refresh_token, expires_in, team, authed_user, incoming_webhook } =
        access.output
      return {
        secrets: {
          accessToken: access_token,
          ...(refresh_token !== undefined && { refreshToken: refresh_token }),
          incomingWebhookUrl: incoming_webhook.url,
        },
        accessExpiresAt: expires_in === undefined ? null : new Date(Date.now() + expires_in * 1000),
        accountId: team.id,
        accountName: team.name ?? null,
        accountUserId: authed_user?.id ?? null,
        // A workspace has one bot token for an app, whoever authorized it.
        grantId: team.id,
        channelId: incoming_webhook.channel_id,
        channelName: incoming_webhook.channel,
      }
    },

    async revoke({ accessToken }) {
      try {
        await client(accessToken, timeouts.revokeMs).auth.revoke()
      } catch (error) {
        throw providerError('revoke', error)
      }
    },

    async post({ accessToken, incomingWebhookUrl }, channelId, { text, blocks }) {
      const startedAt = performance.now()
      const message = { text, blocks: [...blocks], unfurl_links: false, unfurl_media: false }
      try {
        const call = { channel: channelId, ...message }
        await client(accessToken, timeouts.callMs).chat.postMessage(call)
        return { kind: 'posted' }
      } catch (error) {
        const outcome = failedPost(error)
        // The bot is no member of the channel that was chosen, which may be a private one; the
        // address that Slack gave for it needs no membership.
        return outcome.kind === 'refused' &&
          needsMembership.has(outcome.reason) &&
          incomingWebhookUrl !== undefined
          ? await postToWebhook(
              incomingWebhookUrl,
              message,
              // Both ways together take no longer than one call may.
              Math.max(timeouts.callMs - (performance.now() - startedAt), 1_000),
            )
          : outcome
      }
    },
  }
}

const needsMembership = new Set(['not_in_channel', 'channel_not_found'])

/** Connecting again, with another channel where the channel is the matter, is what helps. */
const breaksConnection = new Set([
  'invalid_auth',
  'token_revoked',
  'token_expired',
  'account_inactive',
  'not_authed',
  'missing_scope',
  'no_service',
  'invalid_token',
  'channel_not_found',
  'channel_is_archived',
  'is_archived',
  'not_in_channel',
])

const passing = new Set(['internal_error', 'fatal_error', 'request_timeout', 'service_unavailable'])

/** How long to wait when Slack does not say. */
const defaultWaitMs = 30_000

/** What a refusal by Slack's own word means for the message and for the connection. */
function refusedPost(word: string): PostOutcome {
  const reason = /^[a-z0-9_]{1,60}$/i.test(word) ? word : 'unknown_error'
  if (reason === 'ratelimited' || reason === 'rate_limited') {
    return { kind: 'wait', ms: defaultWaitMs }
  }
  if (passing.has(reason)) return { kind: 'failed', reason }
  return { kind: 'refused', reason, connectionBroken: breaksConnection.has(reason) }
}

function failedPost(error: unknown): PostOutcome {
  if (error instanceof WebAPIPlatformError) return refusedPost(error.data.error)
  if (error instanceof WebAPIRateLimitedError) return { kind: 'wait', ms: error.retryAfter * 1000 }
  if (error instanceof WebAPIHTTPError) return failedHttp(error.statusCode)
  return { kind: 'failed', reason: 'unreachable' }
}

function failedHttp(status: number): PostOutcome {
  const reason = `http_${status}`
  return status >= 500 || status === 408
    ? { kind: 'failed', reason }
    : { kind: 'refused', reason, connectionBroken: false }
}

async function postToWebhook(
  url: string,
  message: object,
  timeoutMs: number,
): Promise<PostOutcome> {
  try {
    await ky.post(url, { json: message, retry: 0, redirect: 'error', timeout: timeoutMs })
    return { kind: 'posted' }
  } catch (error) {
    if (!(error instanceof HTTPError)) return { kind: 'failed', reason: 'unreachable' }
    const { status, headers } = error.response
    if (status === 429) {
      const seconds = Number(headers.get('Retry-After'))
      return { kind: 'wait', ms: seconds > 0 ? seconds * 1000 : defaultWaitMs }
    }
    // A webhook says its word as plain text, with 4xx.
    return status < 500 && typeof error.data === 'string' && error.data !== ''
      ? refusedPost(error.data)
      : failedHttp(status)
  }
}

function providerError(stage: ProviderError['stage'], error: unknown): ProviderError {
  // Slack answers 200 even when it refuses; its client turns that into this error, and an answer
  // that is no JSON too, with the whole text for a reason.
  if (error instanceof WebAPIPlatformError) {
    const refusal = new ProviderError('slack', stage, 'refused', error.data.error)
    return refusal.reason === undefined ? new ProviderError('slack', stage, 'nonsense') : refusal
  }
  if (error instanceof WebAPIRateLimitedError) {
    return new ProviderError('slack', stage, 'unreachable', 'ratelimited')
  }
  return new ProviderError('slack', stage, 'unreachable')
}
