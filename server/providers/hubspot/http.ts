import ky, { HTTPError } from 'ky'
import * as v from 'valibot'
import { oneTry, ProviderError, type ProviderSettings, type Timeouts } from '../provider.ts'

// `status` is the most precise code (BAD_REDIRECT_URI). But if it is 'error', use `category`.
const errorAnswer = v.pipe(
  v.object({
    status: v.optional(v.string()),
    error: v.optional(v.string()),
    category: v.optional(v.string()),
  }),
  v.transform(({ status, error, category }) => (status === 'error' ? category : (status ?? error))),
)

/** The wait after a 429 without Retry-After. HubSpot counts calls in windows of ten seconds. */
const defaultWaitMs = 10_000

/**
 * Creates the functions that call HubSpot's API. They try once, because the relay itself retries.
 */
export function createHubspotHttp(settings: ProviderSettings, timeouts: Timeouts) {
  const client = { client_id: settings.clientId, client_secret: settings.clientSecret }

  return {
    /** POSTs a form to the OAuth API 2026-03. @throws ProviderError */
    async postOAuth(
      path: string,
      form: Record<string, string>,
      stage: ProviderError['stage'],
      timeoutMs = timeouts.callMs,
    ): Promise<unknown> {
      const url = `${settings.apiUrl}/oauth/2026-03/${path}`
      const body = new URLSearchParams({ ...client, ...form })
      const text = await asProviderError(stage, () =>
        ky.post(url, { body, ...oneTry(timeoutMs) }).text(),
      )
      return text === '' ? undefined : parseJson(text, stage)
    },

    /** GETs from the CRM API. @returns undefined for a 404. @throws ProviderError */
    async read<Answer>(
      path: string,
      accessToken: string,
      shape: v.GenericSchema<unknown, Answer>,
    ): Promise<Answer | undefined> {
      const headers = { Authorization: `Bearer ${accessToken}` }
      const text = await asProviderError('read', async () => {
        try {
          return await ky
            .get(`${settings.apiUrl}${path}`, { headers, ...oneTry(timeouts.callMs) })
            .text()
        } catch (error) {
          if (error instanceof HTTPError && error.response.status === 404) return undefined
          throw error
        }
      })
      if (text === undefined) return undefined
      const answer = v.safeParse(shape, parseJson(text, 'read'))
      if (!answer.success) throw new ProviderError('hubspot', 'read', 'nonsense')
      return answer.output
    },
  }
}

export type HubspotHttp = ReturnType<typeof createHubspotHttp>

// ky's errors contain the request with its secrets. So convert them before they leave this file.
async function asProviderError<T>(
  stage: ProviderError['stage'],
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (!(error instanceof HTTPError)) throw new ProviderError('hubspot', stage, 'unreachable')
    const refusal = v.safeParse(errorAnswer, error.data)
    const reason = refusal.success ? refusal.output : undefined
    const { status, headers } = error.response
    if (status === 429) {
      const seconds = Number(headers.get('Retry-After'))
      const waitMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : defaultWaitMs
      throw new ProviderError('hubspot', stage, 'unreachable', 'rate_limited', waitMs)
    }
    throw status < 500 && isRefusal(stage, status, reason)
      ? new ProviderError('hubspot', stage, 'refused', reason)
      : new ProviderError('hubspot', stage, 'unreachable', reason ?? `status_${status}`)
  }
}

/**
 * Whether this 4xx is a refusal, so that another try cannot help. In the relay, a refusal breaks
 * the connection. So for the relay's calls, only HubSpot's own codes about the token count. A
 * proxy's page or a mistake in our settings may be temporary.
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
