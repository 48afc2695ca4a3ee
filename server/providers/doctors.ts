import { hubspotDoctor } from './hubspot/doctor.ts'
import { pipedriveDoctor } from './pipedrive/doctor.ts'
import type { ProviderDoctor } from './provider-doctor.ts'
import type { OAuthId } from './registry.ts'
import { slackDoctor } from './slack/doctor.ts'

export const doctors: Readonly<Record<OAuthId, ProviderDoctor>> = {
  hubspot: hubspotDoctor,
  pipedrive: pipedriveDoctor,
  slack: slackDoctor,
}
