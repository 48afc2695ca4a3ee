import { Hono } from 'hono'
import type { Context } from '../context.ts'

/** What each rule would have sent. */
export function previewRoutes(_context: Context) {
  return new Hono()
}
