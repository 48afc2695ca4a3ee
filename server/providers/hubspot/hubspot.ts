import { defaultTimeouts, type ProviderSettings, type Timeouts } from '../calls.ts'
import type { SharedCounts } from '../limiter.ts'
import type { Crm } from '../provider.ts'
import { createHubspotDeals } from './deals.ts'
import { createHubspotHttp } from './http.ts'
import { createHubspotOAuth } from './oauth.ts'
import { createHubspotSearch } from './search.ts'
import { createHubspotNames } from './stages-and-owners.ts'
import { createHubspotWebhook } from './webhook.ts'

export function createHubspot(
  settings: ProviderSettings,
  timeouts: Timeouts = defaultTimeouts,
  shared?: SharedCounts,
): Crm {
  const http = createHubspotHttp(settings, timeouts, shared)
  return {
    inUse: settings.inUse,
    standIn: settings.standIn,
    readsAs: 'account',
    ...createHubspotOAuth(http, settings, timeouts),
    ...createHubspotDeals(http, settings),
    ...createHubspotSearch(http),
    ...createHubspotNames(http),
    uninstall: http.uninstall,
    ...createHubspotWebhook(settings),
    brokenReasons: {
      BAD_REFRESH_TOKEN: 'the access was revoked',
      invalid_grant: 'the access was revoked',
      BAD_HUB: 'the account no longer exists or removed the app',
      access_denied: 'the account no longer exists or removed the app',
      MISSING_SCOPES: 'a permission is missing',
      USER_DOES_NOT_HAVE_PERMISSIONS: 'the person who connected it may not read deals',
    },
  }
}
