import * as v from 'valibot'
import { waitAtMost } from '../../background.ts'
import type { ProviderSettings, Timeouts } from '../calls.ts'
import type { Crm, CrmAccess, Secrets } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import { calls, notKnownYet, type PipedriveHttp } from './http.ts'
import { deleteWebhook } from './subscription.ts'

const token = v.pipe(v.string(), v.nonEmpty())
const tokenAnswer = v.object({
  access_token: token,
  refresh_token: token,
  /** Seconds. */
  expires_in: v.pipe(v.number(), v.minValue(1)),
  /** The names with commas between them. */
  scope: v.nullish(v.string()),
  api_domain: v.string(),
})

const me = v.object({
  id: v.number(),
  company_id: v.number(),
  // It becomes part of addresses.
  company_domain: v.pipe(v.string(), v.regex(/^[a-z0-9-]+$/i)),
})

/** Reads who authorized, and the company's domain, which users know. @throws ProviderError */
async function readMe({ call }: PipedriveHttp, access: CrmAccess) {
  const { data } = await call(access, 'me', 'v1/users/me', me)
  return { ...data, host: `${data.company_domain}.pipedrive.com` }
}

const companyAddress = /^https:\/\/[a-z0-9-]+\.pipedrive\.com$/

/**
 * The base address of a company's API, if it is Pipedrive's or has the origin of PIPEDRIVE_API_URL. The token is sent
 * there, and another address could be inside our network.
 */
function companyUrl(
  domain: string,
  { apiUrl }: Pick<ProviderSettings, 'apiUrl'>,
): string | undefined {
  if (companyAddress.test(domain)) return domain
  const url = URL.parse(domain)
  const isPlain = url !== null && `${url.origin}${url.pathname}`.replace(/\/$/, '') === domain
  return isPlain && url.origin === new URL(apiUrl).origin ? domain : undefined
}

/** Creates the functions for Pipedrive's OAuth API. It has neither PKCE nor scopes in an address. */
export function createPipedriveOAuth(
  http: PipedriveHttp,
  settings: ProviderSettings,
  timeouts: Timeouts,
): Pick<Crm, 'authorizeUrl' | 'exchange' | 'refresh' | 'revoke' | 'names'> {
  const { postOAuth } = http
  const accessOf = ({ accessToken, apiUrl }: Secrets): CrmAccess => ({
    ...{ accountId: notKnownYet, accessToken, apiUrl, urgency: 'fresh' },
  })

  return {
    authorizeUrl({ redirectUri, state }) {
      const url = new URL(settings.authorizeUrl)
      const query = { client_id: settings.clientId, redirect_uri: redirectUri, state }
      url.search = new URLSearchParams(query).toString()
      return url.href
    },

    async exchange({ code, redirectUri }) {
      const form = { grant_type: 'authorization_code', code, redirect_uri: redirectUri }
      const token = await postOAuth('token', form, 'exchange', tokenAnswer)
      const apiUrl = companyUrl(token.api_domain, settings)
      if (apiUrl === undefined) {
        throw new ProviderError('pipedrive', 'exchange', 'refused', 'unknown_api_domain')
      }
      const granted = tokensOf(token, apiUrl)
      const { id, company_id, host } = await readMe(http, accessOf(granted.secrets))
      return {
        ...granted,
        ...{ accountId: String(company_id), accountName: host, accountUserId: String(id) },
        // All grants of a user end with one of them.
        grantId: `${company_id}:${id}`,
        ...{ channelId: null, channelName: null },
      }
    },

    async names(access) {
      return { accountName: (await readMe(http, access)).host }
    },

    async revoke(secrets, { accountId, webhookId }) {
      // The revocation deletes the webhook, too, but it may fail.
      if (webhookId !== null) {
        const access = { ...accessOf(secrets), accountId }
        const deleted = deleteWebhook(http, access, webhookId).catch(() => undefined)
        await waitAtMost(timeouts.revokeMs / 2, deleted)
      }
      // Pipedrive uninstalls the app for this user only if the refresh token is revoked.
      const form = { token: secrets.refreshToken ?? secrets.accessToken }
      await postOAuth('revoke', form, 'revoke', v.unknown(), timeouts.revokeMs / 2)
    },

    async refresh(secrets) {
      const form = { grant_type: 'refresh_token', refresh_token: secrets.refreshToken ?? '' }
      const token = await postOAuth('token', form, 'refresh', tokenAnswer)
      const apiUrl = companyUrl(token.api_domain, settings) ?? secrets.apiUrl ?? ''
      return tokensOf(token, apiUrl)
    },
  }
}

function tokensOf(
  { access_token, refresh_token, scope, expires_in }: v.InferOutput<typeof tokenAnswer>,
  apiUrl: string,
) {
  const mayReadOwners = scope?.split(/[\s,]+/).includes(calls.user.scope)
  const secrets: Secrets = {
    ...{ accessToken: access_token, refreshToken: refresh_token, apiUrl },
    ...(mayReadOwners !== undefined && { mayReadOwners }),
  }
  return { secrets, accessExpiresAt: new Date(Date.now() + expires_in * 1000) }
}
