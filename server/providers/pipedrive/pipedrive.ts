import { defaultTimeouts, type ProviderSettings, type Timeouts } from '../calls.ts'
import type { SharedCounts } from '../limiter.ts'
import type { Crm } from '../provider.ts'
import { createPipedriveDeals } from './deals.ts'
import { createPipedriveHttp, forbidden, noScope, notPaid } from './http.ts'
import { createPipedriveOAuth } from './oauth.ts'
import { createPipedriveNames } from './stages-and-owners.ts'
import { createPipedriveSubscription } from './subscription.ts'
import { createPipedriveWebhook } from './webhook.ts'

export function createPipedrive(
  settings: ProviderSettings,
  timeouts: Timeouts = defaultTimeouts,
  shared?: SharedCounts,
): Crm {
  const http = createPipedriveHttp(settings, timeouts, shared)
  return {
    inUse: settings.inUse,
    standIn: settings.standIn,
    readsAs: 'user',
    // They cost as much as ten deals.
    stagesFreshMs: 60 * 60_000,
    ...createPipedriveOAuth(http, settings, timeouts),
    ...createPipedriveDeals(http, settings),
    ...createPipedriveNames(http),
    webhooks: createPipedriveSubscription(http, settings),
    ...createPipedriveWebhook(settings),
    brokenReasons: {
      invalid_grant: 'the access was revoked',
      [noScope]: 'a permission is missing',
      [forbidden]: 'you may not see its deals',
      [notPaid]: 'the company has no paid plan any more',
    },
  }
}
