import { randomBytes } from 'node:crypto'
import { and, eq, gt, lt } from 'drizzle-orm'
import { Hono } from 'hono'
import type { Dependencies } from '../app.ts'
import { authorizations } from '../database/schema.ts'
import { ApiError } from '../http/errors.ts'
import { byFetchOnly, fromDashboardOnly, notFromAnotherSite } from '../http/origin.ts'
import { storeConnection } from '../people/connections.ts'
import { userOfHubspotIdentity } from '../people/identity.ts'
import { type Sessions, sha256 } from '../people/session.ts'
import { ProviderError, type ProviderId } from '../providers/provider.ts'

const authorizationLifetimeMs = 10 * 60 * 1000

const displayNames = { hubspot: 'HubSpot', slack: 'Slack' } satisfies Record<ProviderId, string>

/** The authorization code flow: the way to a provider's consent page, and back from it. */
export function authorizationRoutes(
  provider: ProviderId,
  { database, vault, providers, appUrl, now, log }: Dependencies,
  sessions: Sessions,
) {
  // It is the dashboard's page that the browser comes back to, and that page then makes the call.
  const redirectUri = `${appUrl}/${provider}/callback`
  const name = displayNames[provider]
  const invalidState = () =>
    new ApiError(
      400,
      'invalid_state',
      `This authorization was not begun here, was already used, or took too long. Connect ${name} again.`,
    )

  return new Hono()
    .get('/auth', notFromAnotherSite, async (c) => {
      const session = await sessions.findOrCreate(c)
      const state = randomBytes(32).toString('base64url')
      const codeVerifier = randomBytes(32).toString('base64url')
      await database.delete(authorizations).where(lt(authorizations.expiresAt, now()))
      await database.insert(authorizations).values({
        stateHash: sha256(state),
        sessionHash: session.tokenHash,
        provider,
        codeVerifier,
        expiresAt: new Date(now().getTime() + authorizationLifetimeMs),
      })
      return c.redirect(providers[provider].authorizeUrl({ redirectUri, state, codeVerifier }))
    })
    .get('/callback', fromDashboardOnly(appUrl), byFetchOnly, async (c) => {
      const code = c.req.query('code')
      if (!code) throw new ApiError(400, 'missing_code', 'The address has no authorization code.')
      const state = c.req.query('state')
      if (!state) throw new ApiError(400, 'invalid_state', 'The address has no state.')

      // Deleting is what makes the state single use: of two requests at once, one gets the row.
      // A stranger's session gets none, and so cannot use the state up for its owner either.
      const session = await sessions.find(c)
      if (session === undefined) throw invalidState()
      const [authorization] = await database
        .delete(authorizations)
        .where(
          and(
            eq(authorizations.stateHash, sha256(state)),
            eq(authorizations.sessionHash, session.tokenHash),
            eq(authorizations.provider, provider),
            gt(authorizations.expiresAt, now()),
          ),
        )
        .returning({ codeVerifier: authorizations.codeVerifier })
      if (authorization === undefined) throw invalidState()

      try {
        const { codeVerifier } = authorization
        const grant = await providers[provider].exchange({ code, redirectUri, codeVerifier })
        const { accountId: hubId, accountUserId: hubspotUserId } = grant
        const userId =
          provider === 'hubspot' && hubspotUserId !== null
            ? await sessions.renew(c, session, (tx) =>
                userOfHubspotIdentity(tx, vault, session.userId, { hubId, hubspotUserId }),
              )
            : session.userId
        await storeConnection(database, vault, { userId, provider }, grant, now())
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error
        const { stage, kind, reason } = error
        log('authorization failed', { provider, stage, kind, reason })
        throw kind === 'refused'
          ? new ApiError(
              502,
              'exchange_refused',
              `${name} refused the authorization${reason === undefined ? '' : ` (${reason})`}.`,
            )
          : new ApiError(502, 'provider_unavailable', `${name} could not be reached. Try again.`)
      }
      return c.body(null, 204)
    })
}
