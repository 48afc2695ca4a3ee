import { hash } from 'node:crypto'
import { array, fallback, object, parseJson, pipe, regex, safeParse, string } from 'valibot'
import { type AddressChat, createByAddress, withoutSlash } from '../by-address.ts'
import { type AddressSettings, defaultTimeouts } from '../calls.ts'
import { uuidOf } from '../message-id.ts'
import type { Chat } from '../provider.ts'
import { parameterOf, spellingsOf } from '../read-address.ts'
import { card } from './card.ts'

// https://developers.google.com/workspace/chat/create-messages: with text and cards, a message has at most 32,000 bytes.
const mostBytes = 30_000

// https://google.aip.dev/193: the form of all errors of Google's APIs.
const code = pipe(string(), regex(/^[A-Z_]{1,60}$/))
const errorAnswer = pipe(
  string(),
  parseJson(),
  object({
    error: object({ status: code, details: fallback(array(object({ reason: code })), []) }),
  }),
)
const wrongKey = 'API_KEY_INVALID'

const noAccess =
  'Google Chat does not accept the address: the webhook was deleted, its space is closed, or your administrator has switched webhooks off. Make a new one'

const messages = /\/spaces\/([\w-]+)\/messages\/?$/

/** Keeps the thread that an address names. An id of a message is ours: Google would post a copied one only once. */
function plain(address: URL): URL {
  const url = withoutSlash(address)
  const copied = ['requestId', 'messageId'].flatMap((id) => spellingsOf(id, url))
  for (const name of copied) url.searchParams.delete(name)
  return url
}

/** A thread is another place than its space. Each webhook has threads of its own, also with the same key. */
function threadIn(address: URL): string | undefined {
  const key = parameterOf(address, 'threadKey')
  // Without this option, Google ignores the key.
  const replies = parameterOf(address, 'messageReplyOption')?.startsWith('REPLY_MESSAGE')
  if (key === undefined || !replies) return undefined
  const token = parameterOf(address, 'token')
  return hash('sha256', JSON.stringify([token, key]), 'hex').slice(0, 16)
}

export const googleChat: AddressChat = {
  id: 'google-chat',
  steps: [
    'In Google Chat on a computer, open the space.',
    'Open the menu beside the name of the space, and choose Apps & integrations.',
    'Under Webhooks, choose Add webhook. If it is missing, your administrator does not allow webhooks, or this is no space.',
    'Name it Dealbell, and choose Save.',
    'Copy the whole address of the webhook, and paste it here.',
  ],
  form: { path: messages, shown: '/spaces/{space}/messages', parameters: ['key', 'token'] },
  plain,
  /** Google posts a message once for each request id. The same text in another form is another message. */
  request(message, key, address) {
    const json = card(message)
    const url = plain(address)
    url.searchParams.set('requestId', uuidOf(...key, json))
    return { url, json }
  },
  confirms: true,
  knowsIds: true,
  failure({ status, body }) {
    const { success, output } = safeParse(errorAnswer, body)
    if (!success) return status >= 200 && status < 300 ? undefined : `http_${status}`
    const { error } = output
    // A wrong key is an invalid argument, as a message can be.
    return error.details.some(({ reason }) => reason === wrongKey) ? wrongKey : error.status
  },
  brokenReasons: {
    UNAUTHENTICATED: noAccess,
    PERMISSION_DENIED: noAccess,
    NOT_FOUND: noAccess,
    [wrongKey]: 'the key in the address is wrong, or no longer valid. Make a new webhook',
  },
  // 60 messages in 60 seconds for a space, which all its apps share. Google does not say how long to wait.
  // https://developers.google.com/workspace/chat/limits
  defaultWaitMs: 60_000,
  pace: { channelMs: 2_000, perSecond: 0.5, burst: 1 },
  fits: (message) => Buffer.byteLength(JSON.stringify(card(message))) <= mostBytes,
  account(address) {
    const space = messages.exec(address.pathname)?.[1] ?? ''
    const thread = threadIn(address)
    const channelId = thread === undefined ? space : `${space}~${thread}`
    return { accountId: `google-chat:${space}`, channelId }
  },
}

export const createGoogleChat = (settings: AddressSettings, timeouts = defaultTimeouts): Chat =>
  createByAddress(googleChat, settings, timeouts)
