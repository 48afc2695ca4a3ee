import type { AllSettings } from './calls.ts'
import { createDiscord } from './discord/discord.ts'
import { createGoogleChat } from './google-chat/google-chat.ts'
import { createHubspot } from './hubspot/hubspot.ts'
import type { SharedCounts } from './limiter.ts'
import { createMattermost } from './mattermost/mattermost.ts'
import { createTeams } from './microsoft-teams/microsoft-teams.ts'
import { createPipedrive } from './pipedrive/pipedrive.ts'
import type { Providers } from './provider.ts'
import { createSlack } from './slack/slack.ts'

/** @param shared counts the calls of all processes on one database. Without it, there is only this process. */
export function createProviders(settings: AllSettings, shared?: SharedCounts): Providers {
  return {
    hubspot: createHubspot(settings.hubspot, undefined, shared),
    pipedrive: createPipedrive(settings.pipedrive, undefined, shared),
    slack: createSlack(settings.slack),
    discord: createDiscord(settings.discord),
    'microsoft-teams': createTeams(settings['microsoft-teams']),
    'google-chat': createGoogleChat(settings['google-chat']),
    mattermost: createMattermost(settings.mattermost),
  }
}
