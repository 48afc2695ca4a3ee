import ky, { HTTPError } from 'ky'
import * as v from 'valibot'
import { oneTry, ProviderError, type ProviderSettings, type Timeouts } from '../provider.ts'

// `status` says the most (BAD_REDIRECT_URI), except where it is only 'error'.
const errorAnswer = v.pipe(
  v.object({
    status: v.optional(v.string()),
    error: v.optional(v.string()),
    category: v.optional(v.string()),
  }),
  v.transform(({ status, error, category }) => (status === 'error' ? category : (status ?? error))),
)

/** How long to wait after a 429 that does not say. HubSpot counts calls in windows of ten seconds. */
const defaultWaitMs = 10_000

/** Calls HubSpot's API. Each call is tried once: the relay has tries of its own. */
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

// ky's own errors hold the request, and with it the secrets. So none of them leaves this file.
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
 * Whether another try cannot help after this 4xx. A refusal breaks the connection, so for the relay's
 * calls only HubSpot's own word about the token counts. A proxy's page or a mistake in our settings
 * may pass.
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
