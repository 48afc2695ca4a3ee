import { Hono } from 'hono'
import type { StandInOptions } from '../page.ts'
import { StandInTokens } from '../tokens.ts'
import { type HubspotAccount, StandInDeals } from './account.ts'
import { createHubspotApi } from './api.ts'
import { createHubspotOAuth } from './oauth.ts'
import { createHubspotPages } from './pages.ts'
import { createStandInWebhooks } from './webhooks.ts'

/** A HubSpot with one account. */
export function createStandInHubspot(options: StandInOptions): Hono {
  const { settings, apiUrl } = options
  const account: HubspotAccount = {
    ...options,
    list: '/sandbox/hubspot/deals',
    tokens: new StandInTokens('hubspot-stand-in-', settings.clientSecret),
    deals: new StandInDeals(),
  }
  return new Hono()
    .route('/', createHubspotPages(account, createStandInWebhooks({ settings, apiUrl })))
    .route('/', createHubspotOAuth(account))
    .route('/', createHubspotApi(account))
}
