import { createHash } from 'node:crypto'
import * as v from 'valibot'
import type { ProviderSettings, Timeouts } from '../calls.ts'
import type { Crm } from '../provider.ts'
import type { HubspotHttp } from './http.ts'

// The list, including `oauth`, must equal the app's. Otherwise HubSpot shows no consent page.
export const requiredScopes = [
  'oauth',
  'crm.objects.deals.read',
  'crm.objects.contacts.read',
  'crm.objects.companies.read',
  'crm.schemas.deals.read',
]

const ownersScope = 'crm.objects.owners.read'
/** An account that refuses these works too. Its messages do not name the deal's owner. */
export const optionalScopes = [ownersScope]

const scopes = v.optional(v.array(v.string()))

const tokenAnswer = v.object({
  access_token: v.pipe(v.string(), v.nonEmpty()),
  refresh_token: v.pipe(v.string(), v.nonEmpty()),
  /** Seconds. */
  expires_in: v.pipe(v.number(), v.minValue(1)),
  scopes,
  // Both are optional in HubSpot's documents. Its real answers have no user_id.
  hub_id: v.optional(v.number()),
  user_id: v.optional(v.number()),
})

const introspectAnswer = v.object({
  hub_id: v.number(),
  user_id: v.number(),
  hub_domain: v.nullish(v.string()),
})

const refreshAnswer = v.object({
  access_token: v.pipe(v.string(), v.nonEmpty()),
  // HubSpot does not always send a new refresh token.
  refresh_token: v.optional(v.pipe(v.string(), v.nonEmpty())),
  expires_in: v.pipe(v.number(), v.minValue(1)),
  scopes,
})

/** Creates the functions for HubSpot's OAuth API 2026-03. HubSpot ends version 1 on 2027-02-16. */
export function createHubspotOAuth(
  { postOAuth }: HubspotHttp,
  settings: ProviderSettings,
  timeouts: Timeouts,
): Pick<Crm, 'authorizeUrl' | 'exchange' | 'refresh' | 'revoke' | 'names'> {
  /** Reads who authorized, and the account's domain, which users know. @throws ProviderError */
  async function introspect(accessToken: string) {
    const form = { token: accessToken, token_type_hint: 'access_token' }
    const timeoutMs = timeouts.callMs / 2
    return await postOAuth('token/introspect', form, 'introspect', introspectAnswer, timeoutMs)
  }

  return {
    authorizeUrl({ redirectUri, state, codeVerifier }) {
      const url = new URL(settings.authorizeUrl)
      const query = new URLSearchParams({
        client_id: settings.clientId,
        redirect_uri: redirectUri,
        scope: requiredScopes.join(' '),
        optional_scope: optionalScopes.join(' '),
        state,
        code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
        code_challenge_method: 'S256',
      })
      // HubSpot's documents write a space as %20.
      url.search = query.toString().replaceAll('+', '%20')
      return url.href
    },

    async exchange({ code, redirectUri, codeVerifier }) {
      const form = {
        grant_type: 'authorization_code',
        code,
        redirect_uri: redirectUri,
        code_verifier: codeVerifier,
      }
      const token = await postOAuth('token', form, 'exchange', tokenAnswer)
      const { access_token, refresh_token, expires_in, scopes, ...granted } = token
      const known = await introspect(access_token).catch((error: unknown) => {
        // A connection works without the domain, but not without the account and the user.
        if (granted.hub_id === undefined || granted.user_id === undefined) throw error
        return { hub_id: granted.hub_id, user_id: granted.user_id, hub_domain: undefined }
      })
      const { hub_id, user_id, hub_domain } = { ...known, ...granted }
      return {
        secrets: {
          accessToken: access_token,
          refreshToken: refresh_token,
          ...mayReadOwners(scopes),
        },
        accessExpiresAt: new Date(Date.now() + expires_in * 1000),
        accountId: String(hub_id),
        accountName: hub_domain ?? null,
        accountUserId: String(user_id),
        // HubSpot may give one refresh token for each account, user and app.
        grantId: `${hub_id}:${user_id}`,
        channelId: null,
        channelName: null,
      }
    },

    async names({ accessToken }) {
      const { hub_domain } = await introspect(accessToken)
      return { accountName: hub_domain || undefined }
    },

    async revoke({ accessToken, refreshToken }) {
      // Without a refresh token, the grant ends with the access token, within half an hour.
      const form =
        refreshToken === undefined
          ? { token: accessToken, token_type_hint: 'access_token' }
          : { token: refreshToken, token_type_hint: 'refresh_token' }
      await postOAuth('token/revoke', form, 'revoke', v.unknown(), timeouts.revokeMs)
    },

    async refresh(secrets) {
      const refreshToken = secrets.refreshToken ?? ''
      const form = { grant_type: 'refresh_token', refresh_token: refreshToken }
      const token = await postOAuth('token', form, 'refresh', refreshAnswer)
      const { access_token, refresh_token = refreshToken, expires_in, scopes } = token
      return {
        secrets: {
          ...secrets,
          accessToken: access_token,
          refreshToken: refresh_token,
          ...mayReadOwners(scopes),
        },
        accessExpiresAt: new Date(Date.now() + expires_in * 1000),
      }
    },
  }
}

function mayReadOwners(scopes: readonly string[] | undefined) {
  return scopes === undefined ? {} : { mayReadOwners: scopes.includes(ownersScope) }
}
