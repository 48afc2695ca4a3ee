import type { ProviderSettings } from './calls.ts'
import { createHubspot } from './hubspot/hubspot.ts'
import type { Providers } from './provider.ts'
import type { ProviderId } from './registry.ts'
import { createSlack } from './slack/slack.ts'

export function createProviders(settings: Record<ProviderId, ProviderSettings>): Providers {
  return {
    hubspot: createHubspot(settings.hubspot),
    slack: createSlack(settings.slack),
  }
}
