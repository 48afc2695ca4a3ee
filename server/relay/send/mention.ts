import { createCache } from '../../cache.ts'
import { openSecrets } from '../../people/connections.ts'
import { ProviderError } from '../../providers/provider-error.ts'
import type { RelayParts } from '../parts.ts'
import type { OpenRoute } from './ready.ts'

const freshMs = 60 * 60_000
/** The pause after a look-up that failed for a reason that may pass. */
const pauseMs = 60_000
/** Beyond these, the caches forget what was not needed for the longest time. */
const mostMembers = 10_000
const mostPauses = 1_000

/**
 * Creates the function that finds out whom a message can mention: the id of the member with this
 * e-mail address. Undefined if there is none, or if this cannot be found out now. Keeps each answer for an hour, also
 * that there is none. After an error, asks nothing for as long as the chat says, or for a minute. If it refuses the
 * call, asks nothing for an hour, or until the user has connected again. The log never contains an address.
 */
export function createMentions(
  { providers, vault, log }: Pick<RelayParts, 'providers' | 'vault' | 'log'>,
  now: () => number = () => performance.now(),
): (chat: OpenRoute['chat'], email: string) => Promise<string | undefined> {
  const members = createCache<{ id: Promise<string | undefined>; askedAt: number }>(mostMembers)
  /** Until when nothing is asked, by account or by connection. */
  const pauses = createCache<number>(mostPauses)

  return async function memberFor(chat, email) {
    const { memberWithEmail } = providers[chat.provider]
    if (memberWithEmail === undefined) return undefined
    const account = `${chat.provider}/${chat.accountId}`
    const connection = `${chat.id}/${chat.connectedAt.getTime()}`
    const key = `${account}/${email.toLowerCase()}`
    const known = members.get(key)
    try {
      if (known !== undefined && now() - known.askedAt < freshMs) return await known.id
      if ([account, connection].some((of) => now() < (pauses.get(of) ?? 0))) return undefined
      const entry = { id: memberWithEmail(openSecrets(vault, chat), email), askedAt: now() }
      members.set(key, entry)
      return await entry.id
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
      members.delete(key)
      const { kind, reason, retryAfterMs = pauseMs } = error
      const isRefused = kind === 'refused'
      pauses.set(isRefused ? connection : account, now() + (isRefused ? freshMs : retryAfterMs))
      log('owner not mentioned', { connection: chat.id, kind, reason })
      return undefined
    }
  }
}
