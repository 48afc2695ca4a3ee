import { hash } from 'node:crypto'
import { object, parseJson, pipe, safeParse, string } from 'valibot'
import { type AddressChat, type Answer, createByAddress, withoutSlash } from '../by-address.ts'
import { type AddressSettings, askedWaitMs, defaultTimeouts } from '../calls.ts'
import { type Chat, longestWaitMs } from '../provider.ts'
import { textOf } from './text.ts'

// https://docs.mattermost.com: Mattermost divides longer posts.
const mostCharacters = 16_383

const errorAnswer = pipe(string(), parseJson(), object({ id: string() }))

/** The id of an error: 'web.incoming_webhook.invalid.app_error' is 'web_incoming_webhook_invalid'. */
function failure({ status, body }: Answer): string | undefined {
  const { success, output } = safeParse(errorAnswer, body)
  const id = success ? output.id.replace(/\.app_error$/, '').replaceAll('.', '_') : ''
  if (/^\w{1,60}$/.test(id)) return id
  return status >= 200 && status < 300 ? undefined : `http_${status}`
}

const noChannel = 'web_incoming_webhook_channel'
const isGone = 'the webhook was deleted, or the address is not complete. Make a new one'
const mayNotPost =
  'the person who made the webhook may no longer post in its channel. Let somebody in the channel make a new one'

// The errors are those of HandleIncomingWebhook in Mattermost's server/channels/app/webhook.go.
export const mattermost: AddressChat = {
  id: 'mattermost',
  steps: [
    'In Mattermost, open the menu of products in the upper left corner, and choose Integrations. If it is missing, ask your administrator: often only they may make webhooks.',
    'Choose Incoming Webhooks, then Add Incoming Webhook.',
    'Name it Dealbell, choose the channel, and select Lock to this channel.',
    'Choose Save, copy the address, and paste it here.',
  ],
  // A server may be below a path of its own.
  form: { path: /\/hooks\/[a-z0-9]{26}\/?$/, shown: '/hooks/{26 letters and digits}' },
  plain: withoutSlash,
  request: (message) => ({ json: { text: textOf(message) } }),
  confirms: true,
  failure,
  brokenReasons: {
    web_incoming_webhook_invalid: isGone,
    web_incoming_webhook_disabled: 'your administrator has switched incoming webhooks off',
    web_incoming_webhook_channel_locked: mayNotPost,
    web_incoming_webhook_permissions: mayNotPost,
    web_incoming_webhook_user: mayNotPost,
    app_channel_get_existing: 'the channel of the webhook was deleted. Make a new one',
    api_post_create_post_can_not_post_to_deleted_error:
      'the channel of the webhook was archived. Restore the channel, or make a new webhook',
    api_context_404:
      'it has no webhooks at the address: it may have moved. Make a new webhook, or ask your administrator',
  },
  // Its limit is off by default. If it is on, it is 10 calls a second for the address of this server.
  defaultWaitMs: 10_000,
  waitMs({ headers }) {
    const untilReset = Number(headers.get('X-RateLimit-Reset')) * 1000
    const isShort = untilReset > 0 && untilReset <= longestWaitMs
    return askedWaitMs(headers, isShort ? untilReset : mattermost.defaultWaitMs)
  },
  pace: { channelMs: 1_000, perSecond: 5, burst: 20 },
  fits: (message) => textOf(message).length <= mostCharacters,
  // All channels of a server share its limit. The webhook's id is its secret.
  account(address) {
    const { host, pathname } = withoutSlash(address)
    const channelId = hash('sha256', pathname, 'hex').slice(0, 32)
    return { accountId: `mattermost:${host}`, accountName: host, channelId }
  },
  // No channel can have this name. Mattermost looks for it only after it has found the webhook.
  look: {
    request: { method: 'post', json: { text: 'Dealbell', channel: '!dealbell' } },
    read: (answer) => (answer.status === 404 && failure(answer) === noChannel ? {} : undefined),
  },
}

export const createMattermost = (settings: AddressSettings, timeouts = defaultTimeouts): Chat =>
  createByAddress(mattermost, settings, timeouts)
