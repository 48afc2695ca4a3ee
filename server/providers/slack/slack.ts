import {
  LogLevel,
  WebAPIHTTPError,
  WebAPIPlatformError,
  WebAPIRateLimitedError,
  WebClient,
} from '@slack/web-api'
import ky, { HTTPError } from 'ky'
import * as v from 'valibot'
import type { ProviderSettings } from '../../settings.ts'
import {
  type Chat,
  defaultTimeouts,
  oneTry,
  type PostOutcome,
  type Provider,
  ProviderError,
  type Timeouts,
} from '../provider.ts'

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
      fetch: fetchWithWait,
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
  'no_service_id',
  'no_active_hooks',
  'no_team',
  'team_disabled',
  'invalid_token',
  'channel_not_found',
  'channel_is_archived',
  'is_archived',
  'not_in_channel',
  'no_permission',
  'access_denied',
  'team_access_not_granted',
  'enterprise_is_restricted',
  'ekm_access_denied',
  'two_factor_setup_required',
  'restricted_action',
  'restricted_action_read_only_channel',
  'restricted_action_thread_only_channel',
  'action_prohibited',
  'posting_to_general_channel_denied',
])

/** This message will never be taken; the next may be. */
const refusesMessage = new Set([
  'no_text',
  'missing_text_or_fallback_or_attachments',
  'msg_too_long',
  'msg_blocks_too_long',
  'invalid_blocks',
  'invalid_blocks_format',
  'invalid_arguments',
  'invalid_arg_name',
  'invalid_array_arg',
  'invalid_charset',
  'invalid_form_data',
  'invalid_post_type',
  'missing_post_type',
  'invalid_json',
  'json_not_object',
  'invalid_payload',
])

/** How long to wait when Slack does not say. */
const defaultWaitMs = 30_000

function waitMs(headers: Headers): number {
  const seconds = Number.parseInt(headers.get('Retry-After') ?? '', 10)
  return seconds > 0 ? seconds * 1000 : defaultWaitMs
}

/** Slack's client takes a 429 for a limit only when it says how long to wait. */
async function fetchWithWait(...request: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(...request)
  if (response.status !== 429) return response
  // An unread body would hold its connection open.
  response.body?.cancel().catch(() => {})
  const headers = { 'Retry-After': String(waitMs(response.headers) / 1000) }
  return new Response(null, { status: 429, headers })
}

/**
 * What Slack's own word means for the message and for the connection. Any other answer, a proxy's page
 * or a word that is new, may pass: it is tried again.
 * @param otherwise the reason when it is no plain word.
 */
function refusedPost(word: unknown, otherwise: string): PostOutcome {
  const reason = typeof word === 'string' && /^[a-z0-9_]{1,60}$/i.test(word) ? word : otherwise
  if (reason === 'ratelimited' || reason === 'rate_limited') {
    return { kind: 'wait', ms: defaultWaitMs }
  }
  const connectionBroken = breaksConnection.has(reason)
  return connectionBroken || refusesMessage.has(reason)
    ? { kind: 'refused', reason, connectionBroken }
    : { kind: 'failed', reason }
}

function failedPost(error: unknown): PostOutcome {
  // The client takes an answer that is no JSON for a refusal, with the whole text for a word.
  if (error instanceof WebAPIPlatformError) return refusedPost(error.data.error, 'nonsense')
  if (error instanceof WebAPIRateLimitedError) return { kind: 'wait', ms: error.retryAfter * 1000 }
  // Slack itself answers 200 even when it refuses.
  if (error instanceof WebAPIHTTPError)
    return { kind: 'failed', reason: `http_${error.statusCode}` }
  return { kind: 'failed', reason: 'unreachable' }
}

async function postToWebhook(
  url: string,
  message: object,
  timeoutMs: number,
): Promise<PostOutcome> {
  try {
    const answer = await ky
      .post(url, {
        json: message,
        ...oneTry(timeoutMs),
      })
      .text()
    return answer === 'ok' ? { kind: 'posted' } : { kind: 'failed', reason: 'nonsense' }
  } catch (error) {
    if (!(error instanceof HTTPError)) return { kind: 'failed', reason: 'unreachable' }
    const { status, headers } = error.response
    if (status === 429) return { kind: 'wait', ms: waitMs(headers) }
    // A webhook says its word as plain text, with 4xx.
    return refusedPost(error.data, `http_${status}`)
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
