import { basicAuth } from '../basic-auth.ts'
import {
  checkClient,
  checkUninstalls,
  checkWebhook,
  note,
  type ProviderDoctor,
} from '../provider-doctor.ts'
import { calls, codeIn } from './http.ts'
import { webhookPassword } from './webhook.ts'

/** No company has this id. */
const nobody = '0'
/** The scopes that the app needs. At Pipedrive, a user accepts all scopes of the app or none. */
const scopes = [...new Set(Object.values(calls).map(({ scope }) => scope))]

export const pipedriveDoctor: ProviderDoctor = {
  checks: [
    ({ settings, webhookUrl }) => {
      const password = webhookPassword(settings.clientSecret, nobody)
      const headers = { Authorization: basicAuth(nobody, password) }
      const meta = { entity: 'deal', action: 'delete', company_id: nobody }
      const body = JSON.stringify({ meta, data: null, previous: null })
      const proof = { proof: 'password', otherwise: 'removes the header Authorization' }
      return checkWebhook('pipedrive', webhookUrl, { headers, body }, proof)
    },
    ({ settings }) =>
      checkClient('pipedrive', settings, {
        path: '/oauth/token',
        form: { grant_type: 'refresh_token', refresh_token: 'made-up-by-the-doctor' },
        codesIn: (answer) => [codeIn(answer)],
        accepted: ['invalid_grant'],
        refused: { invalid_client: ['CLIENT_ID', 'CLIENT_SECRET'] },
        place: "the app's OAuth & access scopes at Pipedrive (Developer Hub)",
      }),
    ({ redirectUrl }) => checkUninstalls('pipedrive', redirectUrl),
    async ({ redirectUrl }) =>
      note(`The app at Pipedrive (Developer Hub) needs the callback URL ${redirectUrl}`),
    async () =>
      note(`The app at Pipedrive needs these scopes, and no others: ${scopes.join(', ')}.`),
  ],
  // The Developer Hub takes no file.
  files: () => ({}),
}
