import { Hono } from 'hono'
import { previewCall } from '../../contract/features/preview.ts'
import { createPreview } from '../activity/preview.ts'
import type { Context } from '../context.ts'
import { createWithCrm } from './connected.ts'

export function previewRoutes(context: Context) {
  const previewOf = createPreview(context)
  const withCrm = createWithCrm(context)
  return new Hono().get(previewCall.path, async (c) =>
    c.json(await withCrm(c, async ({ connection }) => previewOf(connection))),
  )
}
