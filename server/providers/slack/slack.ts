import { defaultTimeouts, type ProviderSettings, type Timeouts } from '../calls.ts'
import type { Chat } from '../provider.ts'
import { createSlackClient } from './client.ts'
import { brokenReasons } from './errors.ts'
import { createSlackMembers } from './members.ts'
import { createSlackOAuth } from './oauth.ts'
import { createSlackPost } from './post.ts'

export function createSlack(
  settings: ProviderSettings,
  timeouts: Timeouts = defaultTimeouts,
): Chat {
  const client = createSlackClient(settings.apiUrl)
  return {
    standIn: settings.standIn,
    ...createSlackOAuth(client, settings, timeouts),
    ...createSlackMembers(client, settings, timeouts),
    ...createSlackPost(client, timeouts),
    brokenReasons,
  }
}
