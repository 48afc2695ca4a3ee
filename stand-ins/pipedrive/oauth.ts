import { randomUUID } from 'node:crypto'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { html } from 'hono/html'
import { basicAuth } from '../../server/providers/basic-auth.ts'
import { createConsent } from '../consent.ts'
import { formFields } from '../page.ts'
import { StandInCodes } from '../tokens.ts'
import type { PipedriveCompany, StandInUser } from './company.ts'
import { callApp } from './webhooks.ts'

const accessLifetimeS = 3599

/** Pipedrive takes the scopes from the app's settings. A user accepts all or none. */
const scopes = ['deals:read', 'users:read', 'recents:read', 'webhooks:full', 'base']

/** @param uninstall deletes a user's tokens and webhooks. */
export function createPipedriveOAuth(
  company: PipedriveCompany,
  uninstall: (user: StandInUser) => void,
): Hono {
  const { site, settings, redirectUri, list, users, about } = company
  const codes = new StandInCodes<StandInUser>()
  const { clientId, clientSecret } = settings
  const basic = basicAuth(clientId, clientSecret)
  const userOf = (id: string | undefined) => users.find((user) => `${user.id}` === id) ?? users[0]

  /** Refuses a call without the app's credentials. They may be in the header or in the body. */
  const fromAppOnly: MiddlewareHandler = async (c, next) => {
    const { client_id, client_secret } = await formFields(c)
    const isInBody = client_id === clientId && client_secret === clientSecret
    const isApp = c.req.header('Authorization') === basic || isInBody
    return isApp ? await next() : refused(c, 401, 'invalid_client', 'Client is invalid')
  }

  function tokenAnswer({ tokens }: StandInUser, refreshToken: string) {
    const endsAt = Date.now() + accessLifetimeS * 1000
    return {
      token_type: 'Bearer',
      // Each token has a grant of its own, so that it can be revoked alone.
      access_token: tokens.issue({ grant: randomUUID(), use: 'access', endsAt, scopes }),
      refresh_token: refreshToken,
      expires_in: accessLifetimeS,
      scope: scopes.join(','),
      api_domain: settings.apiUrl,
    }
  }

  const consent = createConsent({
    site,
    path: '/oauth/authorize',
    provider: 'Pipedrive',
    settings,
    redirectUri,
    page: () => ({
      account: about.company_name,
      wishes: [
        'read deals and their stages',
        'read the changes of deals',
        'read the names of users',
        'be told of changes',
      ],
      children: html`<label>You are
        <select name="user">${users.map(
          ({ id, name, isAdmin }) =>
            html`<option value="${id}">${name} (${isAdmin ? 'all deals' : 'own deals'})</option>`,
        )}</select>
      </label>`,
    }),
    code: ({ user }) => codes.issue(userOf(user)),
    denied: 'user_denied',
  })

  return (
    new Hono()
      .route('/', consent)
      .post('/oauth/token', fromAppOnly, async (c) => {
        const { grant_type, refresh_token = '', code = '', redirect_uri } = await formFields(c)
        if (grant_type === 'refresh_token') {
          const user = users.find(({ tokens }) => isRefresh(tokens.read(refresh_token)))
          // The same refresh token comes back.
          return user ? c.json(tokenAnswer(user, refresh_token)) : invalidGrant(c, 'refresh_token')
        }
        if (grant_type !== 'authorization_code') {
          return refused(c, 400, 'unsupported_grant_type', 'Unsupported grant type')
        }
        const user = codes.take(code)
        if (user === undefined) return invalidGrant(c, 'authorization code')
        if (redirect_uri !== redirectUri) return invalidGrant(c, 'redirect_uri')
        const refresh = { grant: randomUUID(), use: 'refresh', endsAt: null } as const
        return c.json(tokenAnswer(user, user.tokens.issue(refresh)))
      })
      .post('/oauth/revoke', fromAppOnly, async (c) => {
        const { token = '' } = await formFields(c)
        // Revoking a token that is not valid succeeds (RFC 7009 §2.2).
        for (const user of users) {
          const known = user.tokens.read(token)
          if (isRefresh(known)) uninstall(user)
          else if (typeof known !== 'string') user.tokens.revoke(known)
        }
        return c.body(null, 200)
      })
      // An installation from the Marketplace has no state.
      .post('/install', async (c) => {
        const { user } = await formFields(c)
        return c.redirect(`${redirectUri}?code=${codes.issue(userOf(user))}`, 303)
      })
      .post('/uninstall', async (c) => {
        const user = userOf((await formFields(c)).user)
        uninstall(user)
        // Pipedrive does not read the answer.
        await callApp(company, 'DELETE', redirectUri, basic, {
          client_id: clientId,
          company_id: about.company_id,
          user_id: user.id,
          timestamp: new Date().toISOString(),
        })
        return c.redirect(list, 303)
      })
  )
}

function isRefresh(token: ReturnType<StandInUser['tokens']['read']>): boolean {
  return typeof token !== 'string' && token.use === 'refresh'
}

const invalidGrant = (c: Context, what: string) =>
  refused(c, 400, 'invalid_grant', `Invalid grant: ${what} is invalid`)

function refused(c: Context, status: 400 | 401, error: string, message: string): Response {
  return c.json({ success: false, error, message }, status)
}
