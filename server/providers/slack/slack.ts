import { counted, defaultTimeouts, type ProviderSettings, type Timeouts } from '../calls.ts'
import type { Chat } from '../provider.ts'
import { fitsSlack } from './blocks.ts'
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
  const { authorizeUrl, exchange, check, revoke } = createSlackOAuth(client, settings, timeouts)
  const { memberWithEmail } = createSlackMembers(client, settings, timeouts)
  return {
    inUse: settings.inUse,
    standIn: settings.standIn,
    // One message a second in a channel. The limit of a workspace is not documented: people report several hundred a
    // minute.
    pace: { channelMs: 1_000, perSecond: 5, burst: 20 },
    fits: fitsSlack,
    confirms: true,
    // By one source of several (post.ts).
    knowsIds: true,
    authorizeUrl,
    exchange: (request) => counted('slack', 'exchange', () => exchange(request)),
    check: (...of) => counted('slack', 'check', () => check(...of)),
    revoke: (...of) => counted('slack', 'revoke', () => revoke(...of)),
    ...(memberWithEmail && {
      memberWithEmail: (secrets, email) =>
        counted('slack', 'member', () => memberWithEmail(secrets, email)),
    }),
    ...createSlackPost(client, timeouts),
    brokenReasons,
  }
}
