import { ask, fieldsOf, type Reply } from '../../cli/ask.ts'
import { checkClient, codeOf, type ProviderDoctor, right, wrong } from '../provider-doctor.ts'
import { optionalScopes, requiredScopes } from './oauth.ts'
import { propertyNames } from './properties.ts'
import { hubSpotSignature } from './signature.ts'

/** After the first upload, only private can become marketplace. */
const distributions = ['private', 'marketplace']

export const hubspotDoctor: ProviderDoctor = {
  checks: [
    async ({ settings, webhookUrl: url }) => {
      if (!url.startsWith('https:')) {
        return wrong(
          `HubSpot sends webhooks only to https, but the address for them is ${url}. Set API_URL to the https address of this server (docs/hosting.md).`,
        )
      }
      const signed = { method: 'POST', url, body: Buffer.from('[]'), timestamp: String(Date.now()) }
      const reply = await ask(url, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          'X-HubSpot-Request-Timestamp': signed.timestamp,
          'X-HubSpot-Signature-v3': hubSpotSignature(settings.clientSecret, signed),
        },
        body: signed.body,
      })
      const fault = webhookFault(url, reply)
      if (fault !== undefined) return wrong(fault)
      return right(`Webhooks arrive at ${url}, and their signature is valid.`)
    },
    // HubSpot checks the client before the refresh token.
    ({ settings }) =>
      checkClient('hubspot', settings, {
        path: '/oauth/2026-03/token',
        form: { grant_type: 'refresh_token', refresh_token: 'made-up-by-the-doctor' },
        accepted: ['BAD_REFRESH_TOKEN', 'invalid_grant'],
        refused: {
          BAD_CLIENT_ID: ['CLIENT_ID'],
          BAD_CLIENT_SECRET: ['CLIENT_SECRET'],
          invalid_client: ['CLIENT_ID', 'CLIENT_SECRET'],
        },
        place: "the app's Auth tab at HubSpot (hs project open)",
      }),
  ],
  distributions,
  files: ({ description, redirectUrl, webhookUrl, properties }, distribution) => ({
    'hsproject.json': () => ({ name: 'dealbell', srcDir: 'src', platformVersion: '2026.03' }),
    'src/app/app-hsmeta.json': (earlier) => ({
      uid: 'dealbell_app',
      type: 'app',
      config: {
        name: 'Dealbell',
        description,
        distribution: distribution ?? distributionOf(earlier) ?? 'marketplace',
        auth: {
          type: 'oauth',
          redirectUrls: [redirectUrl],
          requiredScopes,
          optionalScopes,
          conditionallyRequiredScopes: [],
        },
        permittedUrls: { fetch: [], iframe: [], img: [] },
      },
    }),
    'src/app/webhooks/webhooks-hsmeta.json': () => ({
      uid: 'dealbell_webhooks',
      type: 'webhooks',
      config: {
        settings: { targetUrl: webhookUrl, maxConcurrentRequests: 10 },
        subscriptions: {
          // Only here: with an entry in `legacyCrmObjects` too, HubSpot sends each change twice.
          crmObjects: properties.map((property) => ({
            subscriptionType: 'object.propertyChange',
            objectType: 'deal',
            propertyName: propertyNames[property],
            active: true,
          })),
          legacyCrmObjects: [],
          hubEvents: [],
        },
      },
    }),
  }),
}

const distributionOf = (app: string) =>
  distributions.find((known) => known === Object(fieldsOf(app).config).distribution)

/** What is wrong if a signed webhook without events gets this reply. */
function webhookFault(url: string, reply: Reply): string | undefined {
  if (reply.kind === 'none') {
    return `Webhooks do not arrive: ${url} does not answer: ${reply.why}. Start the server, and let the proxy in front pass this address to it.`
  }
  const { status, text } = reply
  if (status === 204) return undefined
  if (status >= 300 && status < 400) {
    return `Webhooks do not arrive: ${url} redirects (${status}), and HubSpot does not follow. Set API_URL to the address at which this server answers itself.`
  }
  const code = codeOf(Object(fieldsOf(text).error).code)
  if (status === 401 && code === 'invalid_signature') {
    return `Dealbell answers at ${url}, but refuses the signature. Restart the server if HUBSPOT_CLIENT_SECRET, APP_URL or API_URL has changed. Otherwise the proxy changes the path or the body.`
  }
  if (code === 'not_found') {
    return `Dealbell answers at ${url}, but with 404: the proxy changes the path. Let it pass /webhooks on unchanged.`
  }
  if (status >= 500) {
    return `Webhooks do not arrive: ${url} answers ${status}${code === undefined ? '' : ` (${code})`}. If the proxy answers so, start the server behind it. If Dealbell does, read its log.`
  }
  return `Webhooks do not arrive: at ${url}, another program answers ${status}. Let the proxy pass /webhooks to this server, without a password.`
}
