import {
  integer,
  is,
  nullish,
  number,
  object,
  parseJson,
  pipe,
  regex,
  safeParse,
  string,
} from 'valibot'
import project from '../../../package.json' with { type: 'json' }
import { type AddressChat, type Answer, createByAddress } from '../by-address.ts'
import { type AddressSettings, askedWaitMs, defaultTimeouts } from '../calls.ts'
import type { Chat } from '../provider.ts'
import { fits, messageOf } from './message.ts'

const snowflake = pipe(string(), regex(/^\d{1,20}$/))
const webhook = pipe(
  string(),
  parseJson(),
  object({ channel_id: snowflake, name: nullish(string()) }),
)
const errorAnswer = pipe(string(), parseJson(), object({ code: pipe(number(), integer()) }))
const limited = pipe(string(), parseJson(), object({ retry_after: number() }))

const hook = /\/api(?:\/v\d{1,3})?\/webhooks\/(\d{1,20})\/([\w-]+)(?:\/slack|\/github)?\/?$/

/** `/slack` and `/github` take other bodies. The other parameters of a copied address are not ours. */
const plain = (address: URL) =>
  new URL(address.pathname.replace(hook, '/api/webhooks/$1/$2'), address)

/** A thread is a channel of its own, which shares the limit of the channel that it is in. */
function threadIn({ searchParams }: URL): string | undefined {
  const id = searchParams.get('thread_id') ?? ''
  return is(snowflake, id) ? id : undefined
}

const isGone = 'the webhook was deleted. Make a new one'

/** The name of an error: the code of Discord's answer, as in 'code_10015'. */
function failure({ status, body }: Answer): string | undefined {
  const { success, output } = safeParse(errorAnswer, body)
  if (success && output.code > 0) return `code_${output.code}`
  if (status >= 200 && status < 300) return undefined
  if (!success) return `http_${status}`
  // Without a code of its own, the address leads nowhere. After such a 404, Discord wants no further call.
  return status === 404 ? 'discord_404' : `http_${status}`
}

// https://docs.discord.com/developers/topics/opcodes-and-status-codes#json
export const discord: AddressChat = {
  id: 'discord',
  steps: [
    'In Discord on a computer, open the settings of the channel with the gear beside its name. It must be a text channel, not a forum.',
    'Choose Integrations, then Webhooks, then New Webhook. If Integrations is missing, ask somebody who may manage webhooks.',
    'Name the webhook like the channel: Dealbell shows this name.',
    'Choose Copy Webhook URL, and paste it here.',
  ],
  form: { path: hook, shown: '/api/webhooks/{id}/{token}' },
  plain,
  /** Without `wait`, Discord answers before it has posted. */
  request(message, _, address) {
    const url = plain(address)
    const thread = threadIn(address)
    if (thread !== undefined) url.searchParams.set('thread_id', thread)
    url.searchParams.set('wait', 'true')
    return { url, json: messageOf(message) }
  },
  // Without such a header, Cloudflare may refuse the call.
  headers: {
    'User-Agent': `DiscordBot (https://github.com/dealbell/dealbell, ${project.version})`,
  },
  confirms: true,
  failure,
  brokenReasons: {
    code_10015: isGone,
    discord_404: isGone,
    code_10003:
      'the channel or thread of the webhook was deleted. Make a webhook in another channel',
    code_50027:
      'the token in the address is wrong: a part of it is missing, or it is no longer valid. Make a new webhook',
    code_220001:
      'the webhook is in a forum, in which Dealbell cannot post. Make a webhook in a text channel',
  },
  finalReasons: new Set(['code_10015', 'code_10003', 'discord_404']),
  defaultWaitMs: 60_000,
  waitMs({ headers, body }) {
    const { success, output } = safeParse(limited, body)
    const inBody = new Headers({ 'Retry-After': success ? `${output.retry_after}` : '' })
    return askedWaitMs(headers, askedWaitMs(inBody, discord.defaultWaitMs))
  },
  // Discord blocks an address after 10,000. No header tells the count.
  // https://docs.discord.com/developers/topics/rate-limits#invalid-request-limit-aka-cloudflare-bans
  invalid: {
    includes: ({ status, headers }) =>
      [401, 403, 429].includes(status) && headers.get('X-RateLimit-Scope') !== 'shared',
    most: 5_000,
    seconds: 600,
  },
  // Users have measured 30 messages in 60 seconds for a channel, which all its webhooks share.
  // https://github.com/discord/discord-api-docs/issues/6753
  pace: { channelMs: 2_000, perSecond: 0.5, burst: 1 },
  fits,
  account(address) {
    const id = hook.exec(address.pathname)?.[1] ?? ''
    return { accountId: `discord:${id}`, channelId: threadIn(address) ?? id }
  },
  // Without the thread: a webhook can be asked only for itself.
  look: {
    request: { method: 'get' },
    read({ status, body }, address) {
      const { success, output } = safeParse(webhook, body)
      if (status !== 200 || !success) return undefined
      const { channel_id: channel, name } = output
      const channelId = threadIn(address) ?? channel
      return { accountId: `discord:${channel}`, channelId, channelName: name ?? undefined }
    },
  },
}

export const createDiscord = (settings: AddressSettings, timeouts = defaultTimeouts): Chat =>
  createByAddress(discord, settings, timeouts)
