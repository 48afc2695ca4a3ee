import { Hono } from 'hono'
import { previewCall } from '../../contract/features/preview.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { createPreview } from '../relay/show/preview.ts'
import { createWithCrm } from './connected.ts'

/** What each rule would have sent. */
export function previewRoutes(context: Context) {
  const previewOf = createPreview(context)
  const withCrm = createWithCrm(context)
  return new Hono().get(previewCall.path, async (c) => {
    const days = c.req.query('days') ?? '7'
    if (!/^[1-7]$/.test(days)) {
      throw new ApiError(400, 'invalid_days', 'The number of days must be 1 to 7.')
    }
    const preview = await withCrm(c, ({ connection }) => previewOf(connection, Number(days)))
    if (preview === undefined) {
      throw new ApiError(409, 'not_connected', 'The connection has just ended.')
    }
    return c.json(preview)
  })
}
