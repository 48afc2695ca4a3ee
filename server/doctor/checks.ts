// Whether addresses, credentials and network work. Each check returns a finding and changes nothing.

import { navigations, pathOf } from '../../contract/endpoints.ts'
import { ask, fieldsOf, type Reply } from '../cli/ask.ts'
import { Client, connectionTo, lookAtSession } from '../database/session.ts'
import { isLoopback } from '../http/origin.ts'
import { hubSpotSignature } from '../providers/hubspot/signature.ts'
import { providerIds, registry, usedOf } from '../providers/registry.ts'
import { databaseUrlError } from '../settings/open-errors.ts'
import type { Addresses } from '../settings/settings.ts'
import { webhookUrl } from './manifests.ts'

/**
 * One line of the report: what is right, or what is wrong and what to do. It contains no secret. What others answered
 * is in it only as a code or as part of a URL, because a terminal would obey control characters.
 */
export interface Finding {
  /** `warning`: Dealbell works, but not as a user may expect. */
  kind: 'right' | 'warning' | 'wrong'
  text: string
}

export const right = (text: string): Finding => ({ kind: 'right', text })
export const warning = (text: string): Finding => ({ kind: 'warning', text })
const wrong = (text: string): Finding => ({ kind: 'wrong', text })

/** A code for the report. Anything else, such as a page of a proxy, is left out. */
function codeOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : undefined
}

/** Checks that APP_URL serves the dashboard where HubSpot and Slack redirect the browser. */
export async function checkDashboard({ appUrl, providers }: Addresses): Promise<Finding> {
  const redirectUrls = usedOf(providers, providerIds).map(
    (id) => appUrl + pathOf(navigations.callbackPage, id),
  )
  const isOnThisMachine = isLoopback(new URL(appUrl).hostname)
  if (!appUrl.startsWith('https:') && !isOnThisMachine) {
    return wrong(
      `APP_URL is ${appUrl}, but HubSpot and Slack redirect only to https. Put a proxy with TLS in front of the server, and set APP_URL to its https address (docs/hosting.md).`,
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
      `APP_URL is ${appUrl}, but it redirects to ${origin}, so the redirect URLs lead to another origin. Set APP_URL to ${origin}, and register the redirect URLs of that origin in both apps.`,
    )
  }
  const isPage = reply.status === 200 && reply.text.includes('<div id="root">')
  if (!isPage) {
    return wrong(
      `${url} answers ${reply.status}, but not with the dashboard. The host must answer this address with the dashboard's index.html (docs/hosting.md).`,
    )
  }
  const urls = redirectUrls.join(' and ')
  if (isOnThisMachine) {
    return warning(
      `The dashboard answers at APP_URL (${appUrl}), which only this machine can open. The redirect URLs of the apps are ${urls}.`,
    )
  }
  return right(
    `The dashboard answers at APP_URL. The redirect URLs of the apps must be exactly ${urls}.`,
  )
}

export async function checkWebhookAddress(addresses: Addresses): Promise<Finding> {
  const { clientSecret } = addresses.providers.hubspot
  const url = webhookUrl(addresses)
  if (!url.startsWith('https:')) {
    return wrong(
      `HubSpot sends webhooks only to https, but the address for them is ${url}. Set API_URL to the https address of this server (docs/hosting.md).`,
    )
  }
  const body = Buffer.from('[]')
  const timestamp = String(Date.now())
  const signed = { method: 'POST', url, body, timestamp }
  const reply = await ask(url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'X-HubSpot-Request-Timestamp': timestamp,
      'X-HubSpot-Signature-v3': hubSpotSignature(clientSecret, signed),
    },
    body,
  })
  if (reply.kind === 'none') {
    return wrong(
      `Webhooks do not arrive: ${url} does not answer: ${reply.why}. Start the server, and let the proxy in front pass this address to it.`,
    )
  }
  if (reply.status === 204) return right(`Webhooks arrive at ${url}, and their signature is valid.`)
  if (reply.status >= 300 && reply.status < 400) {
    return wrong(
      `Webhooks do not arrive: ${url} redirects (${reply.status}), and HubSpot does not follow. Set API_URL to the address at which this server answers itself.`,
    )
  }
  const code = codeOf(Object(fieldsOf(reply.text).error).code)
  if (reply.status === 401 && code === 'invalid_signature') {
    return wrong(
      `Dealbell answers at ${url}, but refuses the signature. Restart the server if HUBSPOT_CLIENT_SECRET, APP_URL or API_URL has changed. Otherwise the proxy changes the path or the body.`,
    )
  }
  if (code === 'not_found') {
    return wrong(
      `Dealbell answers at ${url}, but with 404: the proxy changes the path. Let it pass /webhooks on unchanged.`,
    )
  }
  if (reply.status >= 500) {
    return wrong(
      `Webhooks do not arrive: ${url} answers ${reply.status}${code === undefined ? '' : ` (${code})`}. If the proxy answers so, start the server behind it. If Dealbell does, read its log.`,
    )
  }
  return wrong(
    `Webhooks do not arrive: at ${url}, another program answers ${reply.status}. Let the proxy pass /webhooks to this server, without a password.`,
  )
}

/**
 * Checks HubSpot's client id and secret. A made-up refresh token changes nothing, and HubSpot checks the client first.
 */
export async function checkHubspotClient({ providers }: Addresses): Promise<Finding> {
  const { clientId, clientSecret, apiUrl } = providers.hubspot
  const reply = await ask(`${apiUrl}/oauth/2026-03/token`, {
    method: 'POST',
    headers: { Accept: 'application/json' },
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: 'made-up-by-the-doctor',
      client_id: clientId,
      client_secret: clientSecret,
    }),
  })
  const { status, error } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
  return judgeClient('hubspot', apiUrl, reply, {
    codes: [status, error],
    accepted: ['BAD_REFRESH_TOKEN', 'invalid_grant'],
    refused: {
      BAD_CLIENT_ID: 'HUBSPOT_CLIENT_ID',
      BAD_CLIENT_SECRET: 'HUBSPOT_CLIENT_SECRET',
      invalid_client: 'HUBSPOT_CLIENT_ID or HUBSPOT_CLIENT_SECRET',
    },
    place: "the app's Auth tab at HubSpot (hs project open)",
  })
}

/** Checks Slack's client id and secret with a made-up code, which changes nothing. */
export async function checkSlackClient({ appUrl, providers }: Addresses): Promise<Finding> {
  const { clientId, clientSecret, apiUrl } = providers.slack
  const redirectUri = appUrl + pathOf(navigations.callbackPage, 'slack')
  const reply = await ask(`${apiUrl}/oauth.v2.access`, {
    method: 'POST',
    body: new URLSearchParams({
      client_id: clientId,
      client_secret: clientSecret,
      code: 'made-up-by-the-doctor',
      redirect_uri: redirectUri,
    }),
  })
  const { error } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
  if (error === 'bad_redirect_uri') {
    return wrong(
      `The Slack app does not list the redirect URL ${redirectUri}. Add it under OAuth & Permissions at api.slack.com/apps.`,
    )
  }
  return judgeClient('slack', apiUrl, reply, {
    codes: [error],
    accepted: ['invalid_code'],
    refused: {
      invalid_client_id: 'SLACK_CLIENT_ID',
      bad_client_secret: 'SLACK_CLIENT_SECRET',
    },
    place: 'Basic Information at api.slack.com/apps',
  })
}

interface Meanings {
  /** The codes of the answer, the most precise first. */
  codes: readonly unknown[]
  /** The codes that complain only of what is made up. */
  accepted: readonly string[]
  /** The settings that other codes complain of. */
  refused: Readonly<Record<string, string>>
  place: string
}

function judgeClient(
  id: 'hubspot' | 'slack',
  apiUrl: string,
  reply: Reply,
  { codes, accepted, refused, place }: Meanings,
): Finding {
  const { name } = registry[id]
  if (reply.kind === 'none') {
    return wrong(
      `${name} does not answer at ${apiUrl}: ${reply.why}. Let this machine make https calls to it, or set HTTPS_PROXY (docs/operating/company-network.md).`,
    )
  }
  const known = codes.map(codeOf).filter((code) => code !== undefined)
  const code = known.find((code) => accepted.includes(code) || Object.hasOwn(refused, code))
  if (code === undefined) {
    const answer = [reply.status, ...known].join(' ')
    return warning(
      `${name} answers ${answer}, which says nothing about client id and secret. Try again later.`,
    )
  }
  if (accepted.includes(code)) return right(`${name} accepts client id and secret.`)
  return wrong(`${name} refuses ${refused[code]} (${code}). Copy the right one from ${place}.`)
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
