import { createHash } from 'node:crypto'
import ky, { HTTPError } from 'ky'
import * as v from 'valibot'
import type { ProviderSettings } from '../../settings.ts'
import {
  type Crm,
  defaultTimeouts,
  oneTry,
  type Provider,
  ProviderError,
  type Stage,
  type Timeouts,
} from '../provider.ts'

// Must equal the app's own list, `oauth` included, or HubSpot refuses to show its consent page.
const scopes = [
  'oauth',
  'crm.objects.deals.read',
  'crm.objects.contacts.read',
  'crm.objects.companies.read',
  'crm.schemas.deals.read',
]

const tokenAnswer = v.object({
  access_token: v.pipe(v.string(), v.nonEmpty()),
  refresh_token: v.pipe(v.string(), v.nonEmpty()),
  // Seconds.
  expires_in: v.pipe(v.number(), v.minValue(1)),
  hub_id: v.number(),
  user_id: v.number(),
})

const introspectAnswer = v.object({ hub_domain: v.optional(v.string()) })

// `status` is the most telling (BAD_REDIRECT_URI), except where it only says 'error'.
const errorAnswer = v.pipe(
  v.object({
    status: v.optional(v.string()),
    error: v.optional(v.string()),
    category: v.optional(v.string()),
  }),
  v.transform(({ status, error, category }) => (status === 'error' ? category : (status ?? error))),
)

const refreshAnswer = v.object({
  access_token: v.pipe(v.string(), v.nonEmpty()),
  // Not always a new one.
  refresh_token: v.optional(v.pipe(v.string(), v.nonEmpty())),
  expires_in: v.pipe(v.number(), v.minValue(1)),
})

const property = v.optional(v.nullable(v.string()), null)
const links = v.optional(v.object({ results: v.array(v.unknown()) }))

const dealAnswer = v.object({
  properties: v.object({
    dealname: property,
    amount: property,
    deal_currency_code: property,
    hubspot_owner_id: property,
  }),
  propertiesWithHistory: v.optional(
    v.object({
      dealstage: v.optional(v.array(v.object({ value: v.string(), timestamp: v.string() })), []),
    }),
  ),
  associations: v.optional(v.object({ contacts: links, companies: links })),
})

const pipelinesAnswer = v.object({
  results: v.array(
    v.object({
      stages: v.array(
        v.object({
          id: v.string(),
          label: v.string(),
          metadata: v.optional(v.record(v.string(), v.unknown()), {}),
        }),
      ),
    }),
  ),
})

const ownerAnswer = v.object({
  firstName: v.optional(v.nullable(v.string())),
  lastName: v.optional(v.nullable(v.string())),
  email: v.optional(v.nullable(v.string())),
})

/** HubSpot's OAuth API 2026-03; v1 ends on 2027-02-16. */
export function createHubspot(
  settings: ProviderSettings,
  timeouts: Timeouts = defaultTimeouts,
): Provider & Crm {
  const client = { client_id: settings.clientId, client_secret: settings.clientSecret }

  async function post(
    path: string,
    form: Record<string, string>,
    stage: ProviderError['stage'],
    timeoutMs: number,
  ): Promise<unknown> {
    let text: string
    try {
      text = await ky
        .post(`${settings.apiUrl}/oauth/2026-03/${path}`, {
          body: new URLSearchParams({ ...client, ...form }),
          // A code is single use; and a redirect would carry the client secret elsewhere.
          ...oneTry(timeoutMs),
        })
        .text()
    } catch (error) {
      throw callError(stage, error)
    }
    return text === '' ? undefined : parseJson(text, stage)
  }

  /** @returns undefined for a 404. */
  async function read<Answer>(
    path: string,
    accessToken: string,
    shape: v.GenericSchema<unknown, Answer>,
  ): Promise<Answer | undefined> {
    let text: string
    try {
      text = await ky
        .get(`${settings.apiUrl}${path}`, {
          headers: { Authorization: `Bearer ${accessToken}` },
          // The relay has its own tries, which other work does not wait for.
          ...oneTry(timeouts.callMs),
        })
        .text()
    } catch (error) {
      if (error instanceof HTTPError && error.response.status === 404) return undefined
      throw callError('read', error)
    }
    const answer = v.safeParse(shape, parseJson(text, 'read'))
    if (!answer.success) throw new ProviderError('hubspot', 'read', 'nonsense')
    return answer.output
  }

  /** The account's domain is the name that people know; a connection works without it. */
  async function accountName(accessToken: string): Promise<string | null> {
    try {
      const form = { token: accessToken, token_type_hint: 'access_token' }
      const answer = await post('token/introspect', form, 'introspect', timeouts.callMs / 4)
      return v.parse(introspectAnswer, answer).hub_domain ?? null
    } catch {
      return null
    }
  }

  return {
    authorizeUrl({ redirectUri, state, codeVerifier }) {
      const url = new URL(settings.authorizeUrl)
      url.search = new URLSearchParams({
        client_id: settings.clientId,
        redirect_uri: redirectUri,
        scope: scopes.join(' '),
        state,
        code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
        code_challenge_method: 'S256',
      }).toString()
      return url.href
    },

    async exchange({ code, redirectUri, codeVerifier }) {
      const answer = await post(
        'token',
        {
          grant_type: 'authorization_code',
          code,
          redirect_uri: redirectUri,
          code_verifier: codeVerifier,
        },
        'exchange',
        timeouts.callMs,
      )
      const token = v.safeParse(tokenAnswer, answer)
      if (!token.success) throw new ProviderError('hubspot', 'exchange', 'nonsense')
      const { access_token, refresh_token, expires_in, hub_id, user_id } = token.output
      return {
        secrets: { accessToken: access_token, refreshToken: refresh_token },
        accessExpiresAt: new Date(Date.now() + expires_in * 1000),
        accountId: String(hub_id),
        accountName: await accountName(access_token),
        accountUserId: String(user_id),
        // HubSpot may give one refresh token for each account, user and app.
        grantId: `${hub_id}:${user_id}`,
        channelId: null,
        channelName: null,
      }
    },

    async revoke({ accessToken, refreshToken }) {
      // Without its refresh token the grant ends with the access token, within half an hour.
      const form =
        refreshToken === undefined
          ? { token: accessToken, token_type_hint: 'access_token' }
          : { token: refreshToken, token_type_hint: 'refresh_token' }
      await post('token/revoke', form, 'revoke', timeouts.revokeMs)
    },

    async refresh(secrets) {
      const refreshToken = secrets.refreshToken ?? ''
      const form = { grant_type: 'refresh_token', refresh_token: refreshToken }
      const answer = await post('token', form, 'refresh', timeouts.callMs)
      const token = v.safeParse(refreshAnswer, answer)
      if (!token.success) throw new ProviderError('hubspot', 'refresh', 'nonsense')
      const { access_token, refresh_token = refreshToken, expires_in } = token.output
      return {
        secrets: { ...secrets, accessToken: access_token, refreshToken: refresh_token },
        accessExpiresAt: new Date(Date.now() + expires_in * 1000),
      }
    },

    async deal(accessToken, dealId) {
      const query = new URLSearchParams({
        properties: 'dealname,dealstage,pipeline,amount,deal_currency_code,hubspot_owner_id',
        propertiesWithHistory: 'dealstage',
        associations: 'contacts,companies',
      })
      const path = `/crm/v3/objects/0-3/${encodeURIComponent(dealId)}?${query}`
      const deal = await read(path, accessToken, dealAnswer)
      if (deal === undefined) return undefined
      const { properties, propertiesWithHistory, associations } = deal
      const linked = [associations?.contacts, associations?.companies]
      return {
        name: properties.dealname,
        amount: properties.amount,
        currency: properties.deal_currency_code,
        ownerId: properties.hubspot_owner_id,
        linked: linked.some((list) => list !== undefined && list.results.length > 0),
        stageHistory: (propertiesWithHistory?.dealstage ?? [])
          .map(({ value, timestamp }) => ({ stageId: value, at: new Date(timestamp) }))
          .sort((a, b) => a.at.getTime() - b.at.getTime()),
      }
    },

    async stages(accessToken) {
      const answer = await read('/crm/v3/pipelines/deals', accessToken, pipelinesAnswer)
      return (answer?.results ?? []).flatMap(({ stages }) =>
        stages.map(({ id, label, metadata }) => ({ id, label, outcome: outcomeOf(metadata) })),
      )
    },

    async ownerName(accessToken, ownerId) {
      try {
        const path = `/crm/v3/owners/${encodeURIComponent(ownerId)}`
        const owner = await read(path, accessToken, ownerAnswer)
        const name = [owner?.firstName, owner?.lastName].filter(Boolean).join(' ')
        return name || (owner?.email ?? undefined)
      } catch (error) {
        // Owners have a scope of their own, which an app may go without.
        if (error instanceof ProviderError && error.kind === 'refused') return undefined
        throw error
      }
    },

    // The consent page and the deals' pages stand at the same address.
    dealUrl: (accountId, dealId) =>
      `${settings.authorizeUrl.replace(/\/oauth\/authorize$/, '')}/contacts/${accountId}/record/0-3/${dealId}`,
  }
}

/** Stage metadata's values are strings; probability 1 is won and 0 is lost. */
export function outcomeOf(metadata: {
  isClosed?: unknown
  probability?: unknown
}): Stage['outcome'] {
  if (metadata.isClosed !== 'true') return 'open'
  if (typeof metadata.probability !== 'string' || metadata.probability.trim() === '') {
    return 'closed'
  }
  const probability = Number(metadata.probability)
  if (probability === 1) return 'won'
  return probability === 0 ? 'lost' : 'closed'
}

// ky's own errors hold the request, and with it the secrets, so none of them leaves here.
function callError(stage: ProviderError['stage'], error: unknown): ProviderError {
  if (!(error instanceof HTTPError)) return new ProviderError('hubspot', stage, 'unreachable')
  const told = v.safeParse(errorAnswer, error.data)
  const reason = told.success ? told.output : undefined
  const { status, headers } = error.response
  if (status === 429) {
    const seconds = Number(headers.get('Retry-After'))
    // HubSpot counts calls in ten seconds, and does not always say how long to wait.
    const waitMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 10_000
    return new ProviderError('hubspot', stage, 'unreachable', 'rate_limited', waitMs)
  }
  return status < 500 && isRefusal(stage, status, reason)
    ? new ProviderError('hubspot', stage, 'refused', reason)
    : new ProviderError('hubspot', stage, 'unreachable', reason ?? `status_${status}`)
}

/**
 * Whether a 4xx says no for good. What the relay is refused breaks the connection, so there only
 * HubSpot's own word on the token counts: a proxy's page or a mistake in our settings may pass.
 */
function isRefusal(
  stage: ProviderError['stage'],
  status: number,
  reason: string | undefined,
): boolean {
  if (stage === 'refresh') return reason === 'BAD_REFRESH_TOKEN' || reason === 'invalid_grant'
  if (stage === 'read') return [401, 403].includes(status) && reason !== undefined
  return true
}

function parseJson(text: string, stage: ProviderError['stage']): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProviderError('hubspot', stage, 'nonsense')
  }
}
