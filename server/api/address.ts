import { eq } from 'drizzle-orm'
import { Hono, type Context as Request } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import { createCache } from '../cache.ts'
import type { Context } from '../context.ts'
import { usedTokens } from '../database/schema.ts'
import { ApiError } from '../http/errors.ts'
import { byOwnNavigation } from '../http/origin.ts'
import { atMostOnceAMinute } from '../log.ts'
import { openState, sealCode } from '../people/authorization-state.ts'
import { longestName, refusalInWords } from '../people/connections.ts'
import { sha256 } from '../people/cookies.ts'
import { authorizationLifetimeMs, personIn } from '../people/session.ts'
import type { PastedAddress } from '../providers/by-address.ts'
import { oneLine } from '../providers/foreign-text.ts'
import type { ByAddress } from '../providers/provider.ts'
import { type AddressId, addressPath, registry } from '../providers/registry.ts'
import { addressesRefused } from '../watch/metrics.ts'
import { addressPage, addressPolicy, endedPage, tooLargePage } from './address-page.ts'

/** Its form is sent from this server's own origin, which need not be the dashboard's. */
export const isAddressPath = (path: string) => /^\/api\/[^/]+\/address$/.test(path)

const mostFormBytes = 16 * 1024
const mostProofs = 1_000

/** The page that takes the place of a consent page: on it, a user pastes the address of a webhook. */
export function addressRoutes(id: AddressId, context: Context) {
  const { database, vault, sessions, limits, providers, appUrl, now, log } = context
  const { byAddress } = providers[id]
  const { name } = registry[id]
  const redirectUri = `${appUrl}${pathOf(navigations.callbackPage, id)}`
  const warn = atMostOnceAMinute(log.warn)

  /** What began the authorization in this browser. Undefined if nothing did, it took too long, or it is complete. */
  async function begunIn(c: Request, state: string) {
    const begun = openState(vault, id, state, now())
    if (begun === undefined) return undefined
    const browser = await sessions.browser(c, begun.tokenHash)
    if (browser === undefined) return undefined
    const isUsed = await database.$count(usedTokens, eq(usedTokens.hash, sha256(state)))
    return isUsed ? undefined : { ...begun, person: personIn(browser.session) }
  }

  function answer(
    c: Request,
    page: ReturnType<typeof addressPage>,
    status: 200 | 400 | 413 | 429 = 200,
  ) {
    c.header('Content-Security-Policy', addressPolicy(appUrl))
    c.header('Referrer-Policy', 'same-origin')
    return c.html(page, status)
  }

  /** Why the address cannot be connected, for the person who has pasted it. Undefined if it can. */
  async function whyRefused(
    c: Request,
    byAddress: ByAddress,
    person: string | undefined,
    address: string,
  ): Promise<string | undefined> {
    const problem = byAddress.problemWith(address)
    if (problem !== undefined) {
      const { fault, part, words } = problem
      addressesRefused.inc({ provider: id, fault })
      // The chat may have changed its addresses.
      if (part !== undefined) log.warn('address not understood', { provider: id, fault, part })
      return words
    }
    await limits.authorization(c)
    const prove = () => byAddress.prove(address)
    const outcome = await limits.attempt(c, id, person, prove, ({ kind }) => kind === 'posted')
    switch (outcome.kind) {
      case 'posted':
        return undefined
      case 'wait': {
        const seconds = Math.ceil(outcome.ms / 1000)
        warn('chat takes no proofs now', { provider: id })
        return `${name} takes no messages at this address now. Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`
      }
      case 'failed': {
        const why = outcome.reason === 'unreachable' ? outcome.code : outcome.reason
        return `${name} could not be reached${why ? ` (${why})` : ''}. Try again.`
      }
      case 'unclear':
      case 'refused':
        return outcome.kind === 'refused' && outcome.connectionBroken
          ? `${refusalInWords(providers, id, outcome.reason)} Its answer was ${outcome.reason}.`
          : `${name} did not take a message at this address. Its answer was ${outcome.reason}. The webhook may be deleted, or may not post in its channel. If a new webhook gets the same answer, tell whoever runs this server.`
    }
  }

  const proofs = createCache<Promise<string | undefined>>(mostProofs, {
    ttl: authorizationLifetimeMs,
  })

  /** As `whyRefused`. A double click sends the form twice, and an address that works gets only one message. */
  async function whyRefusedOnce(
    state: string,
    ...[c, byAddress, person, address]: Parameters<typeof whyRefused>
  ) {
    const key = sha256(`${state} ${address}`)
    const proof = proofs.get(key) ?? whyRefused(c, byAddress, person, address)
    proofs.set(key, proof)
    try {
      const problem = await proof
      if (problem !== undefined) proofs.delete(key)
      return problem
    } catch (error) {
      proofs.delete(key)
      throw error
    }
  }

  const tooLarge = bodyLimit({
    maxSize: mostFormBytes,
    onError: (c) => answer(c, tooLargePage(name), 413),
  })

  return new Hono()
    .get(addressPath(id), byOwnNavigation, async (c) => {
      const state = c.req.query('state') ?? ''
      const begun = await begunIn(c, state)
      if (begun === undefined || byAddress === undefined)
        return answer(c, endedPage(name, appUrl), 400)
      return answer(c, addressPage({ name, state, byAddress }))
    })
    .post(addressPath(id), tooLarge, async (c) => {
      const form: Record<string, unknown> = await c.req.parseBody().catch(() => ({}))
      const text = (field: string) => (typeof form[field] === 'string' ? form[field].trim() : '')
      const state = text('state')
      const begun = await begunIn(c, state)
      if (begun === undefined || byAddress === undefined)
        return answer(c, endedPage(name, appUrl), 400)
      // It is this server's own page, so nothing has failed.
      if (text('answer') === 'cancel') return c.redirect(`${appUrl}/`, 303)
      const isStandIn = text('answer') === 'stand-in'
      const address = isStandIn ? (byAddress.standInAddress ?? '') : text('address')
      const channel = isStandIn ? '' : oneLine(text('channel'), longestName)
      try {
        const problem = await whyRefusedOnce(state, c, byAddress, begun.person, address)
        if (problem !== undefined) {
          return answer(c, addressPage({ name, state, byAddress, address, channel, problem }), 400)
        }
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        const problem = error.message
        return answer(c, addressPage({ name, state, byAddress, address, channel, problem }), 429)
      }
      const pasted: PastedAddress = { address, channel }
      const back = new URL(redirectUri)
      back.searchParams.set('code', sealCode(vault, begun.codeVerifier, pasted))
      back.searchParams.set('state', state)
      return c.redirect(back.href, 303)
    })
}
