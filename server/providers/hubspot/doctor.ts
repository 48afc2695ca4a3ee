import { fieldsOf } from '../../cli/ask.ts'
import { checkClient, checkWebhook, type ProviderDoctor } from '../provider-doctor.ts'
import { optionalScopes, requiredScopes } from './oauth.ts'
import { propertyNames } from './properties.ts'
import { hubSpotSignature } from './signature.ts'

/** After the first upload, only private can become marketplace. */
const distributions = ['private', 'marketplace']

export const hubspotDoctor: ProviderDoctor = {
  checks: [
    ({ settings, webhookUrl: url }) => {
      const signed = { method: 'POST', url, body: Buffer.from('[]'), timestamp: String(Date.now()) }
      const headers = {
        'X-HubSpot-Request-Timestamp': signed.timestamp,
        'X-HubSpot-Signature-v3': hubSpotSignature(settings.clientSecret, signed),
      }
      const proof = { proof: 'signature', otherwise: 'changes the path or the body' }
      return checkWebhook('hubspot', url, { headers, body: signed.body }, proof)
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
