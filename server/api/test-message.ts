import { Hono } from 'hono'
import type { Context } from '../context.ts'

/** Sending a test message. */
export function testMessageRoutes(_context: Context) {
  return new Hono()
}
