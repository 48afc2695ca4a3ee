import * as v from 'valibot'
import type { ProviderSettings, Timeouts } from '../calls.ts'
import type { Crm, CrmAccess, Secrets } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import { calls, type PipedriveHttp } from './http.ts'

const token = v.pipe(v.string(), v.nonEmpty())
const tokenAnswer = v.object({
  access_token: token,
  refresh_token: token,
  /** Seconds. */
  expires_in: v.pipe(v.number(), v.minValue(1)),
  /** The names with commas between them. */
  scope: v.nullish(v.string()),
  api_domain: v.nullish(v.string()),
})

const me = v.object({
  id: v.number(),
  company_id: v.number(),
  // It becomes part of addresses.
  company_domain: v.pipe(v.string(), v.regex(/^[a-z0-9-]+$/i)),
})

/** Reads who authorized, and the company's domain, which users know. @throws ProviderError */
export async function readMe({ call }: PipedriveHttp, access: CrmAccess, timeoutMs?: number) {
  return (await call(access, 'me', 'v1/users/me', me, { timeoutMs })).data
}

const companyAddress = /^https:\/\/[a-z0-9-]+\.pipedrive\.com$/

/**
 * The base address of a company's API, if it is Pipedrive's or at the origin of PIPEDRIVE_API_URL. Any other would get
 * the token, and could be inside our network.
 */
export function companyUrl(
  domain: string | null | undefined,
  { apiUrl }: Pick<ProviderSettings, 'apiUrl'>,
): string | undefined {
  if (!domain) return undefined
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
  unsubscribe: (access: CrmAccess, timeoutMs: number) => Promise<void>,
): Pick<Crm, 'authorizeUrl' | 'exchange' | 'refresh' | 'revoke' | 'names'> {
  const { postOAuth } = http
  // Before the company is known, its address stands for it.
  const accessOf = ({ accessToken, apiUrl = '' }: Pick<Secrets, 'accessToken' | 'apiUrl'>) =>
    ({ accountId: apiUrl, accessToken, apiUrl, urgency: 'fresh' }) as const

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
      const secrets = secretsOf(token, apiUrl)
      const { id, company_id, company_domain } = await readMe(http, accessOf(secrets))
      return {
        secrets,
        accessExpiresAt: expiryOf(token),
        accountId: String(company_id),
        accountName: `${company_domain}.pipedrive.com`,
        accountUserId: String(id),
        // A user who connects again may get the same refresh token.
        grantId: `${company_id}:${id}`,
        channelId: null,
        channelName: null,
      }
    },

    async names(access) {
      const { company_domain } = await readMe(http, access)
      return { accountName: `${company_domain}.pipedrive.com` }
    },

    async revoke(secrets) {
      const { accessToken, refreshToken } = secrets
      // The revocation deletes the webhooks, too. But if it fails, they would stay.
      await unsubscribe(accessOf(secrets), timeouts.revokeMs / 5).catch(() => undefined)
      // That of the refresh token uninstalls the app for this user. That of the access token ends only this token.
      const form =
        refreshToken === undefined
          ? { token: accessToken, token_type_hint: 'access_token' }
          : { token: refreshToken, token_type_hint: 'refresh_token' }
      await postOAuth('revoke', form, 'revoke', v.unknown(), timeouts.revokeMs / 2)
    },

    async refresh(secrets) {
      const form = { grant_type: 'refresh_token', refresh_token: secrets.refreshToken ?? '' }
      const token = await postOAuth('token', form, 'refresh', tokenAnswer)
      const apiUrl = companyUrl(token.api_domain, settings) ?? secrets.apiUrl ?? ''
      return {
        secrets: { ...secrets, ...secretsOf(token, apiUrl) },
        accessExpiresAt: expiryOf(token),
      }
    },
  }
}

type Token = v.InferOutput<typeof tokenAnswer>

function secretsOf({ access_token, refresh_token, scope }: Token, apiUrl: string): Secrets {
  return {
    accessToken: access_token,
    refreshToken: refresh_token,
    apiUrl,
    ...(scope && { mayReadOwners: scope.split(/[\s,]+/).includes(calls.user.scope) }),
  }
}

const expiryOf = ({ expires_in }: Token) => new Date(Date.now() + expires_in * 1000)
