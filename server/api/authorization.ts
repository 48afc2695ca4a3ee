import { randomUUID } from 'node:crypto'
import { Hono } from 'hono'
import * as v from 'valibot'
import { endpoints, navigations, pathOf } from '../../contract/endpoints.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { byFetchOnly, fromDashboardOnly, notFromAnotherSite } from '../http/origin.ts'
import { errorFields } from '../log.ts'
import { completeAuthorization } from '../people/authorize.ts'
import { type Connection, sealSecrets } from '../people/connections.ts'
import { createEndGrant } from '../people/end-grant.ts'
import {
  AuthorizationEnded,
  authorizationLifetimeMs,
  type Browser,
  markUsed,
  randomToken,
  sha256,
} from '../people/session.ts'
import type { Grant } from '../providers/provider.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { type ProviderId, registry } from '../providers/registry.ts'
import { lookAtWaiting, sendingEnded } from '../relay/send/disconnect.ts'

/**
 * What a state holds, sealed: so nothing of an authorization is stored before its callback. The state is bound to the
 * browser by the token of its cookie (RFC 9700 §4.7.1). Nobody can use the PKCE verifier (RFC 7636) without the code
 * and the client secret, and only we can open it.
 */
const sealedState = v.object({
  provider: v.string(),
  codeVerifier: v.string(),
  tokenHash: v.string(),
  /** Milliseconds since 1970. */
  endsAt: v.number(),
})
const sealedAs = 'authorization.state'

/** The authorization code flow: to the provider's consent page, and back from it. */
export function authorizationRoutes(provider: ProviderId, context: Context) {
  const { database, vault, sessions, limits, providers, wakeRelay, appUrl, now, log } = context
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
      // What waits for the former channel may go to the new one at once.
      await lookAtWaiting(database, former.userId)
      wakeRelay()
      await sendingEnded(database, former.userId)
      await endGrant(former)
    } catch (error) {
      log.warn('former connection not ended', { connection: former.id, ...errorFields(error) })
    }
  }

  /** Ends a grant of which nothing was stored, unless another connection shares it. Throws nothing. */
  async function endUnstored({ secrets, ...known }: Grant): Promise<void> {
    try {
      const userId = randomUUID()
      const sealed = sealSecrets(vault, { userId, provider }, secrets)
      await endGrant({ ...known, id: randomUUID(), userId, provider, secrets: sealed })
    } catch (error) {
      log.warn('unused grant not ended', { provider, ...errorFields(error) })
    }
  }

  /** The PKCE verifier in a state. @throws ApiError unless this browser has begun the authorization, and in time. */
  function verifierIn(state: string, browser: Browser): string {
    try {
      const begun = v.parse(sealedState, JSON.parse(vault.open(state, sealedAs)))
      const isValid =
        begun.provider === provider &&
        begun.tokenHash === browser.tokenHash &&
        begun.endsAt > now().getTime()
      if (isValid) return begun.codeVerifier
    } catch {
      // It is not ours.
    }
    throw invalidState()
  }

  return new Hono()
    .get(pathOf(navigations.authorize, provider), notFromAnotherSite, async (c) => {
      await limits.authorization(c)
      const { tokenHash } = await sessions.beginIn(c)
      const codeVerifier = randomToken()
      const endsAt = now().getTime() + authorizationLifetimeMs
      const content: v.InferOutput<typeof sealedState> = {
        provider,
        codeVerifier,
        tokenHash,
        endsAt,
      }
      const state = vault.seal(JSON.stringify(content), sealedAs)
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

        const browser = await sessions.browser(c)
        if (browser === undefined) throw invalidState()
        const codeVerifier = verifierIn(state, browser)
        // Of two requests at once, one gets it. Another browser cannot use it up.
        if (!(await markUsed(database, sha256(state), now()))) throw invalidState()

        try {
          const grant = await providers[provider].exchange({ code, redirectUri, codeVerifier })
          const former = await completeAuthorization(context, c, browser, provider, grant).catch(
            (error) => {
              void endUnstored(grant)
              throw error
            },
          )
          if (former !== undefined) void endFormer(former)
        } catch (error) {
          if (error instanceof AuthorizationEnded) throw invalidState()
          if (!(error instanceof ProviderError)) throw error
          const { kind, reason } = error
          log.warn('authorization failed', { provider, ...error.fields })
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
