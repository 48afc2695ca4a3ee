import { WebAPIHTTPError, WebAPIPlatformError, WebAPIRateLimitedError } from '@slack/web-api'
import * as v from 'valibot'
import { errorCode } from '../../log.ts'
import { type ProviderSettings, type Timeouts, understood } from '../calls.ts'
import type { Chat } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import type { SlackClient } from './client.ts'
import { installedForOrganisation, tokenRotationOn } from './errors.ts'

// With `incoming-webhook`, the user chooses the channel at Slack. The dashboard need not ask for
// it.
const requiredScopes = ['incoming-webhook', 'chat:write']
// Slack wants `users:read` to be requested with `users:read.email`. Dealbell reads no list of members.
const scopesOfMentions = ['users:read', 'users:read.email']

/** The scopes of the bot. Without the optional ones, messages mention nobody. */
export function botScopes({ mentionOwners = false }: Pick<ProviderSettings, 'mentionOwners'>) {
  return { required: requiredScopes, optional: mentionOwners ? scopesOfMentions : [] }
}

const accessAnswer = v.object({
  access_token: v.pipe(v.string(), v.nonEmpty()),
  // Slack sends these two only if the app uses token rotation.
  refresh_token: v.optional(v.unknown()),
  expires_in: v.optional(v.unknown()),
  team: v.object({ id: v.string(), name: v.optional(v.string()) }),
  authed_user: v.optional(v.object({ id: v.optional(v.string()) })),
  incoming_webhook: v.object({ channel: v.string(), channel_id: v.string(), url: v.string() }),
})

/** An installation for all workspaces of an organisation. It has neither a workspace nor a channel. */
const organisationAnswer = v.union([
  v.object({ access_token: v.string(), team: v.null() }),
  v.object({ access_token: v.string(), is_enterprise_install: v.literal(true) }),
])

// Its client adds the scopes of the token, from a header.
const testAnswer = v.object({
  team: v.fallback(v.optional(v.string()), undefined),
  response_metadata: v.fallback(v.object({ scopes: v.optional(v.array(v.string())) }), {}),
})
/** Tokens of older installations have the first one. */
const scopesOfChannels = ['channels:read', 'groups:read']
const channelAnswer = v.object({
  channel: v.object({ name: v.pipe(v.string(), v.nonEmpty()) }),
})

/** Undefined if Slack does not tell, for example because the channel is private. */
async function channelNameOf(
  { conversations }: ReturnType<SlackClient>,
  channel: string,
): Promise<string | undefined> {
  try {
    return `#${v.parse(channelAnswer, await conversations.info({ channel })).channel.name}`
  } catch {
    return undefined
  }
}

export function createSlackOAuth(
  client: SlackClient,
  settings: ProviderSettings,
  timeouts: Timeouts,
): Required<Pick<Chat, 'authorizeUrl' | 'exchange' | 'check' | 'revoke'>> {
  return {
    // No PKCE: Slack supports it only for public clients, which have no secret.
    authorizeUrl({ redirectUri, state }) {
      const { required, optional } = botScopes(settings)
      const url = new URL(settings.authorizeUrl)
      url.search = new URLSearchParams({
        client_id: settings.clientId,
        scope: [...required, ...optional].join(','),
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
      const organisation = v.safeParse(organisationAnswer, answer)
      if (organisation.success) {
        // Dealbell cannot use this token. Nobody would end it later.
        const { access_token } = organisation.output
        await client(access_token, timeouts.revokeMs)
          .auth.revoke()
          .catch(() => {})
        throw new ProviderError('slack', 'exchange', 'refused', installedForOrganisation)
      }
      const access = understood('slack', 'exchange', accessAnswer, answer)
      const { access_token, refresh_token, expires_in, team, authed_user, incoming_webhook } =
        access
      if (!isOfSlack(incoming_webhook.url, settings)) {
        const field = 'incoming_webhook.url'
        throw new ProviderError('slack', 'exchange', 'nonsense', undefined, undefined, { field })
      }
      return {
        // In twelve hours, such a token would be dead. Dealbell refreshes none of Slack's.
        ...((refresh_token ?? expires_in) !== undefined && { unusable: tokenRotationOn }),
        secrets: { accessToken: access_token, incomingWebhookUrl: incoming_webhook.url },
        accessExpiresAt: null,
        accountId: team.id,
        accountName: team.name ?? null,
        accountUserId: authed_user?.id ?? null,
        // All users of a workspace share the app's bot token.
        grantId: team.id,
        channelId: incoming_webhook.channel_id,
        channelName: incoming_webhook.channel,
      }
    },

    async check({ accessToken }, channelId) {
      const slack = client(accessToken, timeouts.callMs)
      let answer: unknown
      try {
        answer = await slack.auth.test()
      } catch (error) {
        throw providerError('check', error)
      }
      const { team, response_metadata } = understood('slack', 'check', testAnswer, answer)
      const { scopes = scopesOfChannels } = response_metadata
      const mayRead = scopes.some((scope) => scopesOfChannels.includes(scope))
      return {
        accountName: team,
        ...(mayRead &&
          channelId !== null && { channelName: await channelNameOf(slack, channelId) }),
      }
    },

    async revoke({ accessToken }) {
      try {
        await client(accessToken, timeouts.revokeMs).auth.revoke()
      } catch (error) {
        throw providerError('revoke', error)
      }
    },
  }
}

/** The server posts to this address, so it must not lead into the operator's own network. */
function isOfSlack(webhook: string, { apiUrl }: ProviderSettings): boolean {
  if (!URL.canParse(webhook)) return false
  const { protocol, hostname, origin } = new URL(webhook)
  const isOwnName = protocol === 'https:' && /\.slack(-gov)?\.com$/.test(hostname)
  // The stand-in's webhooks are beside its API.
  return isOwnName || origin === new URL(apiUrl).origin
}

export function providerError(stage: ProviderError['stage'], error: unknown): ProviderError {
  // If Slack refuses, it answers 200 and its client throws this error. The client also throws it
  // for an answer that is not JSON. The code is then the whole text.
  if (error instanceof WebAPIPlatformError) {
    const refusal = new ProviderError('slack', stage, 'refused', error.data.error)
    return refusal.reason === undefined ? new ProviderError('slack', stage, 'nonsense') : refusal
  }
  if (error instanceof WebAPIRateLimitedError) {
    const waitMs = error.retryAfter * 1000
    return new ProviderError('slack', stage, 'unreachable', 'ratelimited', waitMs)
  }
  const code = error instanceof WebAPIHTTPError ? `status_${error.statusCode}` : errorCode(error)
  return new ProviderError('slack', stage, 'unreachable', undefined, undefined, { code })
}
