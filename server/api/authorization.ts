import { randomBytes, randomUUID } from 'node:crypto'
import { and, eq, gt, sql } from 'drizzle-orm'
import { Hono } from 'hono'
import { endpoints, navigations, pathOf } from '../../contract/endpoints.ts'
import type { Context } from '../context.ts'
import { authorizations } from '../database/schema.ts'
import { ApiError } from '../http/errors.ts'
import { byFetchOnly, fromDashboardOnly, notFromAnotherSite } from '../http/origin.ts'
import { errorFields } from '../log.ts'
import { completeAuthorization } from '../people/authorize.ts'
import { type Connection, sealSecrets } from '../people/connections.ts'
import { createEndGrant } from '../people/end-grant.ts'
import { AuthorizationEnded, sha256 } from '../people/session.ts'
import type { Grant } from '../providers/provider.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { type ProviderId, registry } from '../providers/registry.ts'
import { sendingEnded } from '../relay/send/disconnect.ts'

const authorizationLifetimeMs = 10 * 60 * 1000
/** A person has few consent pages open. Of one browser's authorizations, the newest stay. */
const pendingOfSession = 10
/** Beginning an authorization deletes up to this many expired ones, so that they never become many. */
const expiredAtOnce = 20

/** The authorization code flow: to the provider's consent page, and back from it. */
export function authorizationRoutes(provider: ProviderId, context: Context) {
  const { database, vault, sessions, limits, providers, appUrl, now, log } = context
  // The browser comes back to the dashboard's page, and that page makes the callback call.
  const redirectUri = `${appUrl}${pathOf(navigations.callbackPage, provider)}`
  const endGrant = createEndGrant(context)
  const { name } = registry[provider]
  const invalidState = () =>
    new ApiError(
      400,
      'invalid_state',
      `This authorization was not begun here, was already used, or took too long. Connect ${name} again.`,
    )

  /** Ends what a replaced connection may do, after the messages that are being sent with it. Throws nothing. */
  async function endFormer(former: Connection): Promise<void> {
    try {
      await sendingEnded(database, former.userId)
      await endGrant(former)
    } catch (error) {
      log('former connection not ended', { connection: former.id, ...errorFields(error) })
    }
  }

  /** Ends a grant of which nothing was stored, unless another connection shares it. Throws nothing. */
  async function endUnstored({ secrets, ...known }: Grant, userId: string): Promise<void> {
    try {
      const sealed = sealSecrets(vault, { userId, provider }, secrets)
      const { standIn } = providers[provider]
      await endGrant({ ...known, id: randomUUID(), userId, provider, standIn, secrets: sealed })
    } catch (error) {
      log('unused grant not ended', { provider, ...errorFields(error) })
    }
  }

  /** Reads a few rows by index, however many rows there are. */
  async function makeRoom(sessionHash: string): Promise<void> {
    await database.execute(
      sql`with expired as (
            select state_hash from authorizations
            where expires_at < ${now().toISOString()}::timestamptz
            order by expires_at limit ${expiredAtOnce} for update skip locked
          ), surplus as (
            select state_hash from authorizations
            where session_hash = ${sessionHash}
            order by expires_at desc offset ${pendingOfSession - 1}
          )
          delete from authorizations where state_hash in (
            select state_hash from expired union all select state_hash from surplus
          )`,
    )
  }

  return new Hono()
    .get(pathOf(navigations.authorize, provider), notFromAnotherSite, async (c) => {
      const session = await sessions.findOrCreate(c)
      const isNew = sessions.issued(c)?.isNew ?? true
      await limits.authorization(c, { tokenHash: session.tokenHash, isNew })
      const state = randomBytes(32).toString('base64url')
      const codeVerifier = randomBytes(32).toString('base64url')
      await makeRoom(session.tokenHash)
      await database.insert(authorizations).values({
        stateHash: sha256(state),
        sessionHash: session.tokenHash,
        provider,
        codeVerifier,
        expiresAt: new Date(now().getTime() + authorizationLifetimeMs),
      })
      return c.redirect(providers[provider].authorizeUrl({ redirectUri, state, codeVerifier }))
    })
    .get(
      pathOf(endpoints.callback, provider),
      fromDashboardOnly(appUrl),
      byFetchOnly,
      async (c) => {
        const code = c.req.query('code')
        if (!code) throw new ApiError(400, 'missing_code', 'The address has no authorization code.')
        const state = c.req.query('state')
        if (!state) throw new ApiError(400, 'invalid_state', 'The address has no state.')

        // Claiming the row makes the state single use: of two requests at once, one gets it. Another
        // browser's session gets nothing, so it cannot use up the state either.
        const session = await sessions.find(c)
        if (session === undefined || session.isReplaced) throw invalidState()
        const stateHash = sha256(state)
        const [authorization] = await database
          .update(authorizations)
          .set({ claimed: true })
          .where(
            and(
              eq(authorizations.stateHash, stateHash),
              eq(authorizations.claimed, false),
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
          const begun = { provider, stateHash }
          const former = await completeAuthorization(context, c, session, begun, grant).catch(
            (error) => {
              void endUnstored(grant, session.userId)
              throw error
            },
          )
          if (former !== undefined) void endFormer(former)
        } catch (error) {
          if (error instanceof AuthorizationEnded) throw invalidState()
          if (!(error instanceof ProviderError)) throw error
          const { kind, reason } = error
          log('authorization failed', { provider, ...error.fields })
          throw kind === 'refused'
            ? new ApiError(
                502,
                'exchange_refused',
                `${name} refused the authorization${reason === undefined ? '' : ` (${reason})`}.`,
              )
            : new ApiError(502, 'provider_unavailable', `${name} could not be reached. Try again.`)
        }
        return c.body(null, 204)
      },
    )
}
