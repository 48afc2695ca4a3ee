import { defaultTimeouts, type ProviderSettings, type Timeouts } from '../calls.ts'
import type { SharedCounts } from '../limiter.ts'
import type { Crm } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'

export function createPipedrive(
  settings: ProviderSettings,
  _timeouts: Timeouts = defaultTimeouts,
  _shared?: SharedCounts,
): Crm {
  const notYet = () => Promise.reject(new ProviderError('pipedrive', 'read', 'unreachable'))
  return {
    inUse: settings.inUse,
    standIn: settings.standIn,
    readsAs: 'user',
    brokenReasons: {},
    dealsAtOnce: 100,
    linksAtOnce: 100,
    authorizeUrl: () => settings.authorizeUrl,
    exchange: notYet,
    revoke: notYet,
    refresh: notYet,
    names: notYet,
    subscribe: notYet,
    deal: notYet,
    deals: notYet,
    linked: notYet,
    changedDeals: notYet,
    stages: notYet,
    owner: notYet,
    dealUrl: () => settings.authorizeUrl,
    webhookRefusal: () => 'missing',
    readWebhook: () => ({ kind: 'not signed', why: 'missing' }),
    uninstalledBy: () => undefined,
  }
}
