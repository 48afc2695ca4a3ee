import { createHash } from 'node:crypto'
import ky, { HTTPError } from 'ky'
import * as v from 'valibot'
import type { ProviderSettings } from '../env.ts'
import { defaultTimeouts, type Provider, ProviderError, type Timeouts } from './provider.ts'

// Must equal the app's own list, `oauth` included, or HubSpot refuses to show its consent page.
const scopes = [
  'oauth',
  'crm.objects.deals.read',
  'crm.objects.contacts.read',
  'crm.objects.companies.read',
  'crm.schemas.deals.read',
]

const tokenAnswer = v.object({
  access_token: v.pipe(v.string(), v.nonEmpty()),
  refresh_token: v.pipe(v.string(), v.nonEmpty()),
  // Seconds.
  expires_in: v.pipe(v.number(), v.minValue(1)),
  hub_id: v.number(),
  user_id: v.number(),
})

const introspectAnswer = v.object({ hub_domain: v.optional(v.string()) })

// `status` is the most telling (BAD_REDIRECT_URI), except where it only says 'error'.
const errorAnswer = v.pipe(
  v.object({
    status: v.optional(v.string()),
    error: v.optional(v.string()),
    category: v.optional(v.string()),
  }),
  v.transform(({ status, error, category }) => (status === 'error' ? category : (status ?? error))),
)

/** HubSpot's OAuth API 2026-03; v1 ends on 2027-02-16. */
export function createHubspot(
  settings: ProviderSettings,
  timeouts: Timeouts = defaultTimeouts,
): Provider {
  const client = { client_id: settings.clientId, client_secret: settings.clientSecret }

  async function post(
    path: string,
    form: Record<string, string>,
    stage: ProviderError['stage'],
    timeoutMs: number,
  ): Promise<unknown> {
    let text: string
    try {
      text = await ky
        .post(`${settings.apiUrl}/oauth/2026-03/${path}`, {
          body: new URLSearchParams({ ...client, ...form }),
          // A code is single use; and a redirect would carry the client secret elsewhere.
          retry: 0,
          redirect: 'error',
          timeout: timeoutMs,
        })
        .text()
    } catch (error) {
      // ky's own errors hold the request, and with it the secrets, so none of them leaves here.
      if (!(error instanceof HTTPError)) throw new ProviderError('hubspot', stage, 'unreachable')
      const told = v.safeParse(errorAnswer, error.data)
      const reason = told.success ? told.output : undefined
      const kind = error.response.status < 500 ? 'refused' : 'unreachable'
      throw new ProviderError('hubspot', stage, kind, reason)
    }
    return text === '' ? undefined : parseJson(text, stage)
  }

  /** The account's domain is the name that people know; a connection works without it. */
  async function accountName(accessToken: string): Promise<string | null> {
    try {
      const form = { token: accessToken, token_type_hint: 'access_token' }
      const answer = await post('token/introspect', form, 'introspect', timeouts.callMs / 4)
      return v.parse(introspectAnswer, answer).hub_domain ?? null
    } catch {
      return null
    }
  }

  return {
    authorizeUrl({ redirectUri, state, codeVerifier }) {
      const url = new URL(settings.authorizeUrl)
      url.search = new URLSearchParams({
        client_id: settings.clientId,
        redirect_uri: redirectUri,
        scope: scopes.join(' '),
        state,
        code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
        code_challenge_method: 'S256',
      }).toString()
      return url.href
    },

    async exchange({ code, redirectUri, codeVerifier }) {
      const answer = await post(
        'token',
        {
          grant_type: 'authorization_code',
          code,
          redirect_uri: redirectUri,
          code_verifier: codeVerifier,
        },
        'exchange',
        timeouts.callMs,
      )
      const token = v.safeParse(tokenAnswer, answer)
      if (!token.success) throw new ProviderError('hubspot', 'exchange', 'nonsense')
      const { access_token, refresh_token, expires_in, hub_id, user_id } = token.output
      return {
        secrets: { accessToken: access_token, refreshToken: refresh_token },
        accessExpiresAt: new Date(Date.now() + expires_in * 1000),
        accountId: String(hub_id),
        accountName: await accountName(access_token),
        accountUserId: String(user_id),
        // HubSpot may give one refresh token for each account, user and app.
        grantId: `${hub_id}:${user_id}`,
        channelId: null,
        channelName: null,
      }
    },

    async revoke({ accessToken, refreshToken }) {
      // Without its refresh token the grant ends with the access token, within half an hour.
      const form =
        refreshToken === undefined
          ? { token: accessToken, token_type_hint: 'access_token' }
          : { token: refreshToken, token_type_hint: 'refresh_token' }
      await post('token/revoke', form, 'revoke', timeouts.revokeMs)
    },
  }
}

function parseJson(text: string, stage: ProviderError['stage']): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProviderError('hubspot', stage, 'nonsense')
  }
}
