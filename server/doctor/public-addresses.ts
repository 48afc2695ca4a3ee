import { navigations, pathOf } from '../../contract/endpoints.ts'
import { ask, fieldsOf } from '../cli/ask.ts'
import { isLoopback } from '../http/loopback.ts'
import { hubSpotSignature } from '../providers/hubspot/signature.ts'
import { providerIds, usedOf } from '../providers/registry.ts'
import type { Addresses } from '../settings/settings.ts'
import { codeOf, type Finding, right, warning, wrong } from './finding.ts'
import { webhookUrl } from './manifests.ts'

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

/** Sends a webhook without events to the public address, signed as HubSpot signs. */
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
