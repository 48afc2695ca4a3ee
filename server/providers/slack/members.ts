import { WebAPIPlatformError } from '@slack/web-api'
import * as v from 'valibot'
import { type ProviderSettings, type Timeouts, understood } from '../calls.ts'
import type { Chat } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import type { SlackClient } from './client.ts'
import { providerError } from './oauth.ts'

/** A message waits for this call. */
const longestCallMs = 3_000

/** Slack's errors that mean: there is nobody with this address, or nobody whom the app may see. */
const nobody = new Set(['users_not_found', 'user_not_found', 'user_not_visible'])

/** Slack's codes for faults of its own, or of one address. They say nothing about the connection. */
const passing = new Set([
  'internal_error',
  'fatal_error',
  'service_unavailable',
  'request_timeout',
  'invalid_arguments',
])

const foundAnswer = v.object({
  user: v.object({
    id: v.pipe(v.string(), v.regex(/^[UW][A-Z0-9]{1,30}$/)),
    deleted: v.optional(v.boolean(), false),
  }),
})

export function createSlackMembers(
  client: SlackClient,
  { mentionOwners = false }: ProviderSettings,
  { callMs }: Timeouts,
): Pick<Chat, 'memberWithEmail'> {
  if (!mentionOwners) return {}
  return {
    async memberWithEmail({ accessToken }, email) {
      let answer: unknown
      try {
        const { users } = client(accessToken, Math.min(callMs, longestCallMs))
        answer = await users.lookupByEmail({ email })
      } catch (error) {
        const code = error instanceof WebAPIPlatformError ? error.data.error : ''
        if (nobody.has(code)) return undefined
        throw passing.has(code)
          ? new ProviderError('slack', 'read', 'unreachable', code)
          : providerError('read', error)
      }
      const { user } = understood('slack', 'read', foundAnswer, answer)
      return user.deleted ? undefined : user.id
    },
  }
}
