import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { eq } from 'drizzle-orm'
import { Hono } from 'hono'
import * as v from 'valibot'
import {
  endpoints,
  exchangeRefused,
  navigations,
  pathOf,
  personHeader,
} from '../../contract/endpoints.ts'
import { waitAtMost } from '../background.ts'
import type { Context } from '../context.ts'
import type { Database } from '../database/open.ts'
import { usedTokens } from '../database/schema.ts'
import { ApiError, internalError } from '../http/errors.ts'
import { byFetchOnly, byOwnNavigation, fromDashboardOnly } from '../http/origin.ts'
import { errorFields } from '../log.ts'
import { createWithAccess } from '../people/access-token.ts'
import { openCode, openState, sealState } from '../people/authorization-state.ts'
import { completeAuthorization } from '../people/authorize.ts'
import { type Connection, sealSecrets } from '../people/connections.ts'
import { sha256 } from '../people/cookies.ts'
import { createEndGrant } from '../people/end-grant.ts'
import { AuthorizationEnded, markUsed, personIn, randomToken } from '../people/session.ts'
import { createSubscribe } from '../people/subscription.ts'
import { VaultError } from '../people/vault.ts'
import type { Grant } from '../providers/provider.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { isAddressId, isCrmId, type ProviderId, registry } from '../providers/registry.ts'
import { lookAtWaiting, sendingEnded } from '../relay/send/disconnect.ts'

/**
 * What became of an authorization, sealed. A proxy that loses the answer of a callback repeats the call, perhaps to
 * another process. The code works only once, so the second call gets the result of the first.
 */
const sealedResult = v.object({
  codeHash: v.string(),
  outcome: v.union([
    v.object({ token: v.optional(v.string()), person: v.string() }),
    v.object({
      status: v.custom<ApiError['status']>((status) => typeof status === 'number'),
      code: v.string(),
      message: v.string(),
    }),
  ]),
})
type Outcome = v.InferInput<typeof sealedResult>['outcome']
/** How long a repeated call waits for the first one. The exchange takes up to 25 s. */
const resultWithinMs = 25_000
const askEveryMs = 200
/** The dashboard waits for the answer. The next check finds what was not done by then. */
const subscribeMs = 3_000

export function authorizationRoutes(provider: ProviderId, context: Context) {
  const { database, vault, sessions, limits, providers, wakeRelay, appUrl, now, log } = context
  // The browser comes back to the dashboard's page, and that page makes the callback call.
  const redirectUri = `${appUrl}${pathOf(navigations.callbackPage, provider)}`
  const endGrant = createEndGrant(context)
  const withAccess = createWithAccess(context)
  const subscribe = createSubscribe(context)
  const { name } = registry[provider]
  const begunElsewhere = `It was begun at ${name}, not in Dealbell. To finish it, press Connect in Dealbell.`
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

  /** Has the CRM send its events, from the first change on that the user makes. Throws nothing. */
  async function begin({ provider, ...rest }: Connection): Promise<void> {
    if (!isCrmId(provider) || providers[provider].webhooks === undefined) return
    const connection = { ...rest, provider }
    try {
      await withAccess(connection, 'fresh', (access) => subscribe(connection, access))
    } catch (error) {
      const fields = error instanceof ProviderError ? error.fields : errorFields(error)
      log.warn('subscription failed', { connection: connection.id, provider, ...fields })
    }
  }

  /** Ends a grant of which nothing was stored, unless another connection shares it. Throws nothing. */
  async function endUnstored({ secrets, ...known }: Grant): Promise<void> {
    try {
      const userId = randomUUID()
      const sealed = sealSecrets(vault, { userId, provider }, secrets)
      const unstored = { id: randomUUID(), userId, provider, webhookId: null, secrets: sealed }
      await endGrant({ ...known, ...unstored })
    } catch (error) {
      log.warn('unused grant not ended', { provider, ...errorFields(error) })
    }
  }

  const resultRow = (stateHash: string) => `authorization.result ${stateHash}`

  /** Waits for the first call of a callback that came twice. @returns undefined if there was none, or it takes too long. */
  async function resultOf(stateHash: string, mayWait: boolean) {
    const end = performance.now() + (mayWait ? resultWithinMs : 0)
    for (;;) {
      const used = database.select().from(usedTokens).where(eq(usedTokens.hash, stateHash))
      const [row] = await used
      if (row === undefined) return undefined
      if (row.result !== null) {
        return v.parse(sealedResult, JSON.parse(vault.open(row.result, resultRow(stateHash))))
      }
      if (performance.now() >= end) return undefined
      await delay(askEveryMs)
    }
  }

  function refusalOf(error: unknown): ApiError {
    // A code of another authorization was pasted into this one.
    if (error instanceof AuthorizationEnded || error instanceof VaultError) return invalidState()
    if (error instanceof ApiError) return error
    if (!(error instanceof ProviderError)) return internalError()
    const { kind, reason = '' } = error
    log.warn('authorization failed', { provider, ...error.fields })
    const { brokenReasons } = providers[provider]
    const words = Object.hasOwn(brokenReasons, reason) && `: ${brokenReasons[reason]}`
    const why = words || (reason && ` (${reason})`)
    return kind === 'refused'
      ? new ApiError(502, exchangeRefused, `${name} refused the authorization${why}.`)
      : new ApiError(502, 'provider_unavailable', `${name} could not be reached. Try again.`)
  }

  return new Hono()
    .get(pathOf(navigations.authorize, provider), byOwnNavigation, async (c) => {
      await limits.authorization(c)
      const begun = await sessions.beginIn(c)
      const codeVerifier = randomToken()
      const state = sealState(vault, provider, { codeVerifier, ...begun }, now())
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
        // Whoever installs the app in the CRM's marketplace comes with a code alone.
        if (!state) throw new ApiError(400, exchangeRefused, begunElsewhere)

        const begun = openState(vault, provider, state, now())
        if (begun === undefined) throw invalidState()
        const stateHash = sha256(state)
        const codeHash = sha256(code)
        const browser = await sessions.browser(c, begun.tokenHash)
        const sent = sessions.tokenHashes(c)
        // With a refusal, `nobody` says that the browser has kept no cookie.
        if (begun.keepsCookies || sent.length > 0) c.header(personHeader, undefined)

        const record = async (to: Pick<Database, 'update'>, outcome: Outcome) => {
          const result = vault.seal(JSON.stringify({ codeHash, outcome }), resultRow(stateHash))
          await to.update(usedTokens).set({ result }).where(eq(usedTokens.hash, stateHash))
        }

        // Of two requests at once, one gets it. Another browser cannot use it up.
        if (browser === undefined || !(await markUsed(database, stateHash, now()))) {
          const hasBegun = sent.includes(begun.tokenHash)
          const result = await resultOf(stateHash, hasBegun)
          if (result?.codeHash !== codeHash) throw invalidState()
          const { outcome } = result
          const token = 'token' in outcome ? outcome.token : undefined
          const isSame = hasBegun || (token !== undefined && sent.includes(sha256(token)))
          if (!isSame) throw invalidState()
          if ('status' in outcome) {
            throw new ApiError(outcome.status, outcome.code, outcome.message)
          }
          if (!(await sessions.signInAgain(c, begun.tokenHash, outcome))) throw invalidState()
          return c.body(null, 204)
        }

        try {
          const exchanged = {
            code: isAddressId(provider) ? openCode(vault, begun.codeVerifier, code) : code,
            redirectUri,
            codeVerifier: begun.codeVerifier,
          }
          const grant = await limits.attempt(c, provider, personIn(browser.session), () =>
            providers[provider].exchange(exchanged),
          )
          const store = async () => {
            const { unusable } = grant
            if (unusable !== undefined) {
              throw new ProviderError(provider, 'exchange', 'refused', unusable)
            }
            return await completeAuthorization(context, c, browser, provider, grant, record)
          }
          const { stored, former } = await store().catch((error) => {
            void endUnstored(grant)
            throw error
          })
          if (former !== undefined) void endFormer(former)
          await waitAtMost(subscribeMs, begin(stored))
        } catch (error) {
          const refusal = refusalOf(error)
          const { status, code, message } = refusal
          await record(database, { status, code, message }).catch(() => {})
          throw refusal.status === 500 ? error : refusal
        }
        return c.body(null, 204)
      },
    )
}
