import { createHash, randomUUID } from 'node:crypto'
import { type Context, Hono } from 'hono'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import { createConsent } from '../consent.ts'
import { formFields } from '../page.ts'
import { StandInCodes } from '../tokens.ts'
import { type HubspotAccount, standInHub } from './account.ts'
import { hubspotError, tokenOf } from './refusals.ts'

const accessLifetimeS = 1800

// HubSpot shows its consent page only if the request names all required scopes of the app, and no scope
// that the app does not declare.
const declaredScopes = [
  'oauth',
  'crm.objects.deals.read',
  'crm.objects.contacts.read',
  'crm.objects.companies.read',
  'crm.schemas.deals.read',
]
const declaredOptionalScopes = ['crm.objects.owners.read']

interface Allowed {
  codeChallenge: string | undefined
  scopes: string[]
}

/** HubSpot's consent page and OAuth API 2026-03, as its public specification describes them. */
export function createHubspotOAuth({ site, settings, appUrl, tokens }: HubspotAccount): Hono {
  const { clientId, clientSecret } = settings
  const codes = new StandInCodes<Allowed>()
  const redirectUri = `${appUrl}${pathOf(navigations.callbackPage, 'hubspot')}`

  /** HubSpot's answer to wrong client credentials; undefined if they are right. */
  function wrongClient(c: Context, form: Record<string, string>): Response | undefined {
    if (form.client_id !== clientId) {
      return oauthError(c, 'invalid_client', 'BAD_CLIENT_ID', 'missing or invalid client id')
    }
    if (form.client_secret !== clientSecret) {
      const message = 'missing or invalid client secret'
      return oauthError(c, 'invalid_client', 'BAD_CLIENT_SECRET', message)
    }
    return undefined
  }

  // The real answer does not name the user either, although its specification has `user_id`.
  function tokenAnswer(grant: string, scopes: string[], refreshToken: string) {
    const endsAt = Date.now() + accessLifetimeS * 1000
    return {
      token_type: 'bearer',
      token_use: 'access_token',
      access_token: tokens.issue({ grant, use: 'access', endsAt, scopes }),
      refresh_token: refreshToken,
      expires_in: accessLifetimeS,
      hub_id: standInHub.hubId,
      scopes,
    }
  }

  const consent = createConsent({
    site,
    path: '/oauth/authorize',
    provider: 'HubSpot',
    settings,
    redirectUri,
    problem: consentProblem,
    page: () => ({
      account: standInHub.domain,
      wishes: [
        'read deals and their stages',
        'see which contacts and companies a deal has',
        'read the names of deal owners',
      ],
    }),
    code: ({ code_challenge: codeChallenge, optional_scope }) =>
      codes.issue({ codeChallenge, scopes: [...declaredScopes, ...scopesIn(optional_scope)] }),
    whyDenied: 'The user denied the request.',
  })

  return (
    new Hono()
      .route('/', consent)
      .post('/oauth/2026-03/token', async (c) => {
        const form = await formFields(c)
        const wrong = wrongClient(c, form)
        if (wrong !== undefined) return wrong

        if (form.grant_type === 'refresh_token') {
          const token = tokens.read(form.refresh_token ?? '')
          if (typeof token === 'string' || token.use !== 'refresh') {
            const message = 'refresh token is invalid, expired or revoked'
            return oauthError(c, 'invalid_grant', 'BAD_REFRESH_TOKEN', message)
          }
          return c.json(
            tokenAnswer(token.grant, token.scopes ?? declaredScopes, form.refresh_token ?? ''),
          )
        }
        if (form.grant_type !== 'authorization_code') {
          const message = 'grant_type is missing or unknown'
          return oauthError(c, 'unsupported_grant_type', 'BAD_GRANT_TYPE', message)
        }

        const allowed = codes.take(form.code ?? '')
        if (allowed === undefined) {
          const message = 'missing or unknown auth code'
          return oauthError(c, 'invalid_grant', 'BAD_AUTH_CODE', message)
        }
        if (form.redirect_uri !== redirectUri) {
          const message = 'missing or invalid redirect uri'
          return oauthError(c, 'invalid_grant', 'BAD_REDIRECT_URI', message)
        }
        const { codeChallenge, scopes } = allowed
        const verifierHash = createHash('sha256').update(form.code_verifier ?? '')
        if (codeChallenge !== undefined && verifierHash.digest('base64url') !== codeChallenge) {
          const message = 'missing or invalid code verifier'
          return oauthError(c, 'invalid_grant', 'BAD_CODE_VERIFIER', message)
        }
        const grant = randomUUID()
        const refreshToken = tokens.issue({ grant, use: 'refresh', endsAt: null, scopes })
        return c.json(tokenAnswer(grant, scopes, refreshToken))
      })
      .post('/oauth/2026-03/token/introspect', async (c) => {
        const form = await formFields(c)
        const wrong = wrongClient(c, form)
        if (wrong !== undefined) return wrong
        const token = tokens.read(form.token ?? '')
        if (typeof token === 'string') return c.json({ active: false })
        return c.json({
          active: true,
          token_use: token.use === 'access' ? 'access_token' : 'refresh_token',
          token_type: 'Bearer',
          token: form.token,
          client_id: clientId,
          app_id: standInHub.appId,
          hub_id: standInHub.hubId,
          hub_domain: standInHub.domain,
          user_id: standInHub.userId,
          user: standInHub.user,
          scopes: token.scopes ?? declaredScopes,
          // Only for access tokens. The real answer also has `signed_access_token`, which we do not read.
          ...(token.endsAt !== null && {
            is_private_distribution: false,
            expires_in: Math.round((token.endsAt - Date.now()) / 1000),
          }),
        })
      })
      .post('/oauth/2026-03/token/revoke', async (c) => {
        const form = await formFields(c)
        const wrong = wrongClient(c, form)
        if (wrong !== undefined) return wrong
        const token = tokens.read(form.token ?? '')
        // Revoking a token that is not valid succeeds (RFC 7009 §2.2). HubSpot revokes only refresh tokens:
        // access tokens stay valid until they expire.
        if (typeof token !== 'string' && token.use === 'refresh') tokens.revoke(token, 'refresh')
        return c.body(null, 200)
      })
      // The real one also sends an e-mail to the account's administrators.
      .delete('/appinstalls/2026-03/external-install', (c) => {
        const token = tokenOf(c, tokens)
        if (typeof token === 'string' || token.use !== 'access') {
          const message = 'Authentication credentials not found.'
          return hubspotError(c, 401, 'INVALID_AUTHENTICATION', message)
        }
        // The stand-in has only one account.
        tokens.revokeAll()
        return c.body(null, 204)
      })
  )
}

/** What is wrong with the scopes or the PKCE of a consent request. */
function consentProblem(request: Readonly<Record<string, string>>): string | undefined {
  if (scopesIn(request.scope).sort().join() !== declaredScopes.toSorted().join()) {
    return 'The scopes are not the ones that the app declares.'
  }
  const optional = scopesIn(request.optional_scope)
  if (!optional.every((scope) => declaredOptionalScopes.includes(scope))) {
    return 'The optional scopes are not ones that the app declares.'
  }
  if (request.code_challenge && request.code_challenge_method !== 'S256') {
    return 'The code challenge method must be S256.'
  }
  return undefined
}

/** The scopes in a parameter of the consent page. */
function scopesIn(parameter: string | undefined): string[] {
  return parameter?.split(' ').filter((scope) => scope !== '') ?? []
}

/** The fields of RFC 6749, those of HubSpot's older API, and those of its specification. */
function oauthError(c: Context, error: string, status: string, message: string): Response {
  const documented = { category: 'VALIDATION_ERROR', correlationId: randomUUID(), message }
  return c.json({ error, error_description: message, status, ...documented }, 400)
}
