import { Hono } from 'hono'
import type { Context } from '../context.ts'

/** What became of the messages of a user, and sending a failed one again. */
export function activityRoutes(_context: Context) {
  return new Hono()
}
