import { createHash } from 'node:crypto'
import * as v from 'valibot'
import { type Crm, ProviderError, type ProviderSettings, type Timeouts } from '../provider.ts'
import type { HubspotHttp } from './http.ts'

// The list, including `oauth`, must equal the app's. Otherwise HubSpot shows no consent page.
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
  /** Seconds. */
  expires_in: v.pipe(v.number(), v.minValue(1)),
  hub_id: v.number(),
  user_id: v.number(),
})

const introspectAnswer = v.object({ hub_domain: v.optional(v.string()) })

const refreshAnswer = v.object({
  access_token: v.pipe(v.string(), v.nonEmpty()),
  // HubSpot does not always send a new refresh token.
  refresh_token: v.optional(v.pipe(v.string(), v.nonEmpty())),
  expires_in: v.pipe(v.number(), v.minValue(1)),
})

/** Creates the functions for HubSpot's OAuth API 2026-03. HubSpot ends version 1 on 2027-02-16. */
export function createHubspotOAuth(
  { postOAuth }: HubspotHttp,
  settings: ProviderSettings,
  timeouts: Timeouts,
): Pick<Crm, 'authorizeUrl' | 'exchange' | 'refresh' | 'revoke'> {
  /**
   * Reads the account's domain, which users know. Null if this fails: a connection works without.
   */
  async function accountName(accessToken: string): Promise<string | null> {
    try {
      const form = { token: accessToken, token_type_hint: 'access_token' }
      const answer = await postOAuth('token/introspect', form, 'introspect', timeouts.callMs / 4)
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
      const form = {
        grant_type: 'authorization_code',
        code,
        redirect_uri: redirectUri,
        code_verifier: codeVerifier,
      }
      const token = v.safeParse(tokenAnswer, await postOAuth('token', form, 'exchange'))
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
      // Without a refresh token, the grant ends with the access token, within half an hour.
      const form =
        refreshToken === undefined
          ? { token: accessToken, token_type_hint: 'access_token' }
          : { token: refreshToken, token_type_hint: 'refresh_token' }
      await postOAuth('token/revoke', form, 'revoke', timeouts.revokeMs)
    },

    async refresh(secrets) {
      const refreshToken = secrets.refreshToken ?? ''
      const form = { grant_type: 'refresh_token', refresh_token: refreshToken }
      const token = v.safeParse(refreshAnswer, await postOAuth('token', form, 'refresh'))
      if (!token.success) throw new ProviderError('hubspot', 'refresh', 'nonsense')
      const { access_token, refresh_token = refreshToken, expires_in } = token.output
      return {
        secrets: { ...secrets, accessToken: access_token, refreshToken: refresh_token },
        accessExpiresAt: new Date(Date.now() + expires_in * 1000),
      }
    },
  }
}
