import { Hono } from 'hono'
import type { ProviderSettings } from '../../server/providers/calls.ts'
import type { Site } from '../page.ts'

/** A Pipedrive with one company of two users. */
export function createStandInPipedrive(_options: {
  site: Site
  settings: ProviderSettings
  appUrl: string
  apiUrl: string
}): Hono {
  return new Hono()
}
