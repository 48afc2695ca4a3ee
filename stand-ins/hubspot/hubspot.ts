import { Hono } from 'hono'
import type { ProviderSettings } from '../../server/providers/calls.ts'
import type { Site } from '../page.ts'
import { StandInTokens } from '../tokens.ts'
import { type HubspotAccount, StandInDeals } from './account.ts'
import { createHubspotApi } from './api.ts'
import { createHubspotOAuth } from './oauth.ts'
import { createDealsPage } from './pages.ts'
import { createStandInWebhooks } from './webhooks.ts'

/** A HubSpot with one account. */
export function createStandInHubspot({
  site,
  settings,
  appUrl,
  apiUrl,
}: {
  site: Site
  settings: ProviderSettings
  appUrl: string
  apiUrl: string
}): Hono {
  const account: HubspotAccount = {
    site,
    settings,
    appUrl,
    apiUrl,
    list: '/sandbox/hubspot/deals',
    tokens: new StandInTokens('hubspot-stand-in-', settings.clientSecret),
    deals: new StandInDeals(),
  }
  return new Hono()
    .route('/', createDealsPage(account, createStandInWebhooks({ settings, apiUrl })))
    .route('/', createHubspotOAuth(account))
    .route('/', createHubspotApi(account))
}
