import { Hono } from 'hono'
import { activityEndpoints } from '../../contract/activity.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { ProviderError } from '../providers/provider.ts'
import { crmIds, registry, usedOf } from '../providers/registry.ts'
import { createPreview } from '../relay/show/preview.ts'

/** What each rule would have sent. */
export function previewRoutes(context: Context) {
  const previewOf = createPreview(context)
  return new Hono().get(activityEndpoints.preview.path, async (c) => {
    const days = c.req.query('days') ?? '7'
    if (!/^[1-7]$/.test(days)) {
      throw new ApiError(400, 'invalid_days', 'The number of days must be 1 to 7.')
    }
    const session = await context.sessions.find(c)
    const preview = session && (await previewOf(session.userId, Number(days)).catch(asApiError))
    if (preview === undefined) {
      const { name } = registry[usedOf(context.providers, crmIds)[0]]
      throw new ApiError(409, 'not_connected', `${name} is not connected.`)
    }
    return c.json(preview)
  })
}

/** @throws ApiError that says why the CRM does not say what changed. */
function asApiError(error: unknown): never {
  if (!(error instanceof ProviderError)) throw error
  const { kind, reason, retryAfterMs } = error
  const { name } = registry[error.provider]
  if (retryAfterMs !== undefined) {
    throw new ApiError(502, 'provider_unavailable', `${name} asks for a pause.`)
  }
  if (kind === 'refused' || kind === 'unauthorized') {
    const code = reason === undefined ? '' : ` (${reason})`
    throw new ApiError(502, 'read_refused', `${name} refuses to say what changed${code}.`)
  }
  throw new ApiError(502, 'provider_unavailable', `${name} does not answer.`)
}
