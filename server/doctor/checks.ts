// Whether addresses and database work. Each check returns a finding and changes nothing.

import * as v from 'valibot'
import { endpoints, errorBody } from '../../contract/endpoints.ts'
import { originsIn } from '../../contract/origins.ts'
import { type Answer, ask, fieldsOf, inOurPlace, redirectOf, whatCame } from '../cli/ask.ts'
import { Client, connectionTo, lookAtSession } from '../database/session.ts'
import { isLoopback } from '../http/origin.ts'
import { type Finding, right, warning, wrong } from '../providers/provider-doctor.ts'
import { named, oauthIds, usedOf } from '../providers/registry.ts'
import { databaseUrlError } from '../settings/open-errors.ts'
import type { Addresses } from '../settings/settings.ts'
import { appOf, listed } from './manifests.ts'

/** Checks that APP_URL serves the dashboard where providers redirect the browser. */
export async function checkDashboard(addresses: Addresses): Promise<Finding> {
  const { appUrl, providers } = addresses
  const ids = usedOf(providers, oauthIds)
  const redirectUrls = ids.map((id) => appOf(addresses, id).redirectUrl)
  const isOnThisMachine = isLoopback(new URL(appUrl).hostname)
  if (!appUrl.startsWith('https:') && !isOnThisMachine) {
    return wrong(
      `APP_URL is ${appUrl}, but ${listed(named(ids))} redirect${ids.length === 1 ? 's' : ''} only to https. Put a proxy with TLS in front of the server, and set APP_URL to its https address (docs/hosting.md).`,
    )
  }
  const [url = appUrl] = redirectUrls
  // Without a code, the page calls nothing.
  const reply = await ask(url)
  if (reply.kind === 'none') {
    return wrong(
      `The dashboard does not answer at APP_URL (${appUrl}): ${reply.why}. Start the server, and point the name to the proxy in front of it.`,
    )
  }
  if (asksForSignIn(reply, url)) {
    return warning(
      `${url} ${whatCame(reply, url)}. Only a browser can sign in there, so the dashboard was not seen. If no proxy of yours asks for a sign-in, let the host answer this address with the dashboard's index.html (docs/hosting.md).`,
    )
  }
  const origin = redirectOf(reply, url)?.origin ?? appUrl
  if (origin !== appUrl) {
    return wrong(
      `APP_URL is ${appUrl}, but it redirects to ${origin}, so the redirect URLs lead to another origin. Set APP_URL to ${origin}, and register the redirect URLs of that origin in ${ids.length === 2 ? 'both apps' : 'each app'}.`,
    )
  }
  const isPage = reply.status === 200 && reply.text.includes('<div id="root">')
  if (!isPage) {
    return wrong(
      `${url} does not show the dashboard: it ${whatCame(reply, url)}. The host must answer this address with the dashboard's index.html (docs/hosting.md).`,
    )
  }
  const urls = listed(redirectUrls)
  const what = ids.length === 1 ? 'redirect URL of the app' : 'redirect URLs of the apps'
  if (isOnThisMachine) {
    return warning(
      `The dashboard answers at APP_URL (${appUrl}), which only this machine can open. The ${what} ${ids.length === 1 ? 'is' : 'are'} ${urls}.`,
    )
  }
  return right(`The dashboard answers at APP_URL. The ${what} must be exactly ${urls}.`)
}

/**
 * Whether a proxy asks whoever opens a page for a sign-in. A redirect to the same path, or to `/`, only means that the host
 * has another name.
 */
function asksForSignIn(reply: Answer, url: string): boolean {
  const to = redirectOf(reply, url)
  if (to === null) return [401, 403].includes(reply.status) && inOurPlace(reply, url) !== undefined
  return to.search !== '' || !['/', new URL(url).pathname].includes(to.pathname)
}

/** Whether a monitor outside gets this server's answers. Undefined if nobody answers, which other checks say. */
export async function checkWatched({ apiUrl }: Addresses): Promise<Finding | undefined> {
  for (const path of [endpoints.health.path, '/ready']) {
    const url = apiUrl + path
    const reply = await ask(url)
    if (reply.kind === 'none') return undefined
    if (isOurs(reply)) continue
    return warning(
      `${url} ${whatCame(reply, url)}. A monitor gets this answer instead of Dealbell's. Let the proxy pass ${path} to this server, without a sign-in (docs/hosting.md).`,
    )
  }
  return right(`${endpoints.health.path} and /ready answer at ${apiUrl}, without a sign-in.`)
}

const watched = v.variant('status', [
  v.object({ status: v.literal('ok'), features: v.array(v.string()), appUrl: v.string() }),
  v.object({ status: v.literal('ready') }),
  v.object({ status: v.literal('not ready'), failing: v.array(v.string()) }),
])

/** Whether this server answers. It says 500 if its database does not. */
function isOurs({ status, text }: Answer): boolean {
  const answer = fieldsOf(text)
  return v.is(watched, answer) || (status === 500 && v.is(errorBody, answer))
}

/**
 * Whether the page lets its frame go where the contact form redirects. A browser checks each address on the way.
 * @param origins the setting of those that are allowed beside its own.
 */
export async function checkContactForm(first: URL, origins: string): Promise<Finding> {
  const set = originsIn(origins)
  let at = first
  const missing = new Set<string>()
  for (let hops = 0; hops < mostRedirects; hops++) {
    if (![first.origin, ...set].includes(at.origin)) missing.add(at.origin)
    const reply = await ask(at.href)
    const to = reply.kind === 'answer' ? redirectOf(reply, at.href) : null
    if (to !== null) at = to
    else if (missing.size > 0 || (reply.kind === 'answer' && reply.status < 400)) break
    else return warning(`The contact form at ${at.origin} ${whatCame(reply, at.href)}.`)
  }
  if (missing.size === 0) return right(`The contact form answers at ${at.origin}.`)
  return wrong(
    `The contact form at ${first.origin} leads to ${listed([...missing])}, which the page's policy forbids. Set VITE_CONTACT_FORM_ORIGINS=${[...set, ...missing].join(',')}, and build the dashboard again.`,
  )
}

/** Browsers follow 20. */
const mostRedirects = 20

/** Whether PostgreSQL can be used as it is. Changes nothing. */
export async function checkDatabase(databaseUrl: string): Promise<Finding> {
  const client = new Client(connectionTo(databaseUrl))
  client.on('error', () => {})
  try {
    await client.connect()
    await lookAtSession(client)
    return right('PostgreSQL at DATABASE_URL can be used.')
  } catch (error) {
    return wrong(databaseUrlError(databaseUrl, error).message)
  } finally {
    await client.end().catch(() => {})
  }
}
