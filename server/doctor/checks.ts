// Whether addresses and database work. Each check returns a finding and changes nothing.

import { ask } from '../cli/ask.ts'
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
  const origin = URL.parse(reply.headers.get('Location') ?? '', url)?.origin ?? appUrl
  if (origin !== appUrl) {
    return wrong(
      `APP_URL is ${appUrl}, but it redirects to ${origin}, so the redirect URLs lead to another origin. Set APP_URL to ${origin}, and register the redirect URLs of that origin in ${ids.length === 2 ? 'both apps' : 'each app'}.`,
    )
  }
  const isPage = reply.status === 200 && reply.text.includes('<div id="root">')
  if (!isPage) {
    return wrong(
      `${url} answers ${reply.status}, but not with the dashboard. The host must answer this address with the dashboard's index.html (docs/hosting.md).`,
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
