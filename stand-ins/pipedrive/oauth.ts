import { randomUUID } from 'node:crypto'
import { type Context, Hono } from 'hono'
import { html } from 'hono/html'
import { notFromAnotherSite } from '../../server/http/origin.ts'
import { createConsent } from '../consent.ts'
import { formFields } from '../page.ts'
import { StandInCodes } from '../tokens.ts'
import { type PipedriveCompany, type StandInUser, standInCompany } from './company.ts'

const accessLifetimeS = 3599

/** Pipedrive takes the scopes from the app's settings. A user accepts all or none. */
const scopes = ['deals:read', 'users:read', 'recents:read', 'webhooks:full', 'base']

/** The Basic auth of a request, as `user:password`. */
const basicOf = (c: Context) =>
  Buffer.from(c.req.header('Authorization')?.match(/^Basic (.+)$/)?.[1] ?? '', 'base64').toString()

/** @param uninstall ends what Dealbell has of a user. */
export function createPipedriveOAuth(
  { site, settings, apiUrl, redirectUri, list, users }: PipedriveCompany,
  uninstall: (user: StandInUser) => void,
): Hono {
  const { clientId, clientSecret } = settings
  const codes = new StandInCodes<StandInUser>()
  const app = `${clientId}:${clientSecret}`
  const userOf = (id: string | undefined) => users.find((user) => `${user.id}` === id) ?? users[0]

  function codeFor(id: string | undefined): string {
    const user = userOf(id)
    return user === undefined ? '' : codes.issue(user)
  }

  function isApp(c: Context, form: Record<string, string>): boolean {
    return [basicOf(c), `${form.client_id}:${form.client_secret}`].includes(app)
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

  /** Says to the app that a user has uninstalled it. Pipedrive does not read the answer. */
  async function tellApp(user: StandInUser): Promise<void> {
    const { origin, pathname } = new URL(redirectUri)
    // Sent directly to this server and not through a proxy.
    const to = origin === new URL(apiUrl).origin ? new URL(settings.apiUrl).origin : origin
    await fetch(to + pathname, {
      method: 'DELETE',
      headers: {
        'Content-Type': 'application/json',
        Authorization: `Basic ${Buffer.from(app).toString('base64')}`,
      },
      body: JSON.stringify({
        client_id: clientId,
        company_id: standInCompany.id,
        user_id: user.id,
        timestamp: new Date().toISOString(),
      }),
      redirect: 'manual',
      signal: AbortSignal.timeout(10_000),
    }).catch(() => undefined)
  }

  const consent = createConsent({
    site,
    path: '/oauth/authorize',
    provider: 'Pipedrive',
    settings,
    redirectUri,
    page: () => ({
      account: standInCompany.name,
      wishes: [
        'read deals and their stages',
        'read the changes of deals',
        'read the names of users',
        'be told of changes',
      ],
      children: html`<label>You are
        <select name="user">${users.map(
          ({ id, name, isAdmin }) =>
            html`<option value="${id}">${name} (${isAdmin ? 'sees all deals' : 'sees only own deals'})</option>`,
        )}</select>
      </label>`,
    }),
    code: ({ user }) => codeFor(user),
    denied: 'user_denied',
  })

  return (
    new Hono()
      .route('/', consent)
      .post('/oauth/token', async (c) => {
        const form = await formFields(c)
        if (!isApp(c, form)) return refused(c, 401, 'invalid_client', 'Client is invalid')
        if (form.grant_type === 'refresh_token') {
          const given = form.refresh_token ?? ''
          const user = users.find(({ tokens }) => isRefreshToken(tokens.read(given)))
          if (user === undefined) {
            return refused(c, 400, 'invalid_grant', 'Invalid grant: refresh_token is invalid')
          }
          // The same refresh token comes back.
          return c.json(tokenAnswer(user, given))
        }
        if (form.grant_type !== 'authorization_code') {
          return refused(c, 400, 'unsupported_grant_type', 'Unsupported grant type')
        }
        const user = codes.take(form.code ?? '')
        if (user === undefined || form.redirect_uri !== redirectUri) {
          const what = user === undefined ? 'authorization code' : 'redirect_uri'
          return refused(c, 400, 'invalid_grant', `Invalid grant: ${what} is invalid`)
        }
        const refresh = { grant: randomUUID(), use: 'refresh', endsAt: null } as const
        return c.json(tokenAnswer(user, user.tokens.issue(refresh)))
      })
      .post('/oauth/revoke', async (c) => {
        const form = await formFields(c)
        if (!isApp(c, form)) return refused(c, 401, 'invalid_client', 'Client is invalid')
        // Revoking a token that is not valid succeeds (RFC 7009 §2.2).
        for (const user of users) {
          const token = user.tokens.read(form.token ?? '')
          if (isRefreshToken(token)) uninstall(user)
          else if (typeof token !== 'string') user.tokens.revoke(token)
        }
        return c.body(null, 200)
      })
      // The Marketplace knows nothing of a state.
      .post('/install', notFromAnotherSite, async (c) => {
        const { user } = await formFields(c)
        return c.redirect(`${redirectUri}?code=${codeFor(user)}`, 303)
      })
      .post('/uninstall', notFromAnotherSite, async (c) => {
        const user = userOf((await formFields(c)).user)
        if (user !== undefined) {
          uninstall(user)
          await tellApp(user)
        }
        return c.redirect(list, 303)
      })
  )
}

function isRefreshToken(token: ReturnType<StandInUser['tokens']['read']>): boolean {
  return typeof token !== 'string' && token.use === 'refresh'
}

function refused(c: Context, status: 400 | 401, error: string, message: string): Response {
  return c.json({ success: false, error, message }, status)
}
