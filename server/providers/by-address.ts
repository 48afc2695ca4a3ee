import ky from 'ky'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import * as v from 'valibot'
import { errorCode } from '../log.ts'
import {
  type AddressSettings,
  askedWaitMs,
  counted,
  countedPost,
  isPage,
  oneTry,
  outcomeOfUnknown,
  type Timeouts,
} from './calls.ts'
import type { ChatMessage, MessageKey } from './chat-message.ts'
import type { ByAddress, Chat, Names, Pace, PostOutcome, Secrets } from './provider.ts'
import { ProviderError } from './provider-error.ts'
import { type AddressForm, otherForm, readAddress } from './read-address.ts'
import { type AddressId, registry } from './registry.ts'

/** What a chat answered. The body is text of at most 64 KiB. */
export interface Answer {
  status: number
  headers: Headers
  body: string
}

interface Account extends Names {
  /** What shares a limit. It begins with the chat's id, so that it never equals an account of another chat. */
  accountId: string
  channelId: string
}

/** A chat to which a user gives the address of a webhook. It needs no app, no consent page and no secret of ours. */
export interface AddressChat {
  id: AddressId
  /** How to make a webhook, with the names of the chat's own menus. */
  steps: readonly string[]
  /** What names it in an address. addresses.md has the forms that are known. */
  form: AddressForm
  /** The address that is called, without what was copied with it and is not ours. The default is all of it. */
  plain?(address: URL): URL
  /** A call for a message: a POST of `json`, to the plain address or another `url`. */
  request(message: ChatMessage, key: MessageKey, address: URL): { url?: URL; json: object }
  headers?: Record<string, string>
  /**
   * The name of a failure, as in `brokenReasons`; undefined if there is none. A 2xx is one only if it has the form of the
   * chat's errors: another try of what was posted would repeat it.
   */
  failure(answer: Answer): string | undefined
  brokenReasons: Readonly<Record<string, string>>
  /** Those after which the address must never be called again. */
  finalReasons?: ReadonlySet<string>
  /** How long to wait after 429, if the chat does not say, in ms. */
  defaultWaitMs: number
  waitMs?(answer: Answer): number | undefined
  confirms: boolean
  /** As in `Chat`. */
  knowsIds?: true
  pace: Pace
  fits(message: ChatMessage): boolean
  /** What the address says without a call. */
  account(address: URL): Account
  /** Answers after too many of which the chat refuses all calls of this server. */
  invalid?: {
    includes(answer: Answer): boolean
    /** How many within `seconds` leave the rest to messages. */
    most: number
    seconds: number
  }
  /** Asks without a post whether the address works, and for names. Missing if the chat cannot be asked. */
  look?: {
    request: { method: 'get' } | { method: 'post'; json: object }
    /** Undefined if the answer says neither. */
    read(answer: Answer, address: URL): Partial<Account> | undefined
  }
}

/** Our own code: the settings no longer allow the address. */
const notAllowed = 'address_not_allowed'
const mostAnswerBytes = 64 * 1024

const hello: ChatMessage = {
  text: 'Dealbell is connected to this channel.',
  paragraphs: [[{ type: 'text', text: 'Dealbell is connected to this channel.' }]],
  footer: [],
}

/** What our page seals into an authorization code. */
const pastedAddress = v.object({ address: v.string(), channel: v.string() })
export type PastedAddress = v.InferOutput<typeof pastedAddress>

export function createByAddress(
  chat: AddressChat,
  settings: AddressSettings,
  { callMs }: Timeouts,
): Chat {
  const { id, look } = chat
  const { name } = registry[id]
  const { invalid } = chat
  const invalidCalls =
    invalid && new RateLimiterMemory({ points: invalid.most, duration: invalid.seconds })

  async function ask(url: URL, call: { method: 'get' } | { method: 'post'; json: object }) {
    const options = { throwHttpErrors: false, ...(chat.headers && { headers: chat.headers }) }
    const request = ky(url, { ...call, ...options, ...oneTry(callMs, mostAnswerBytes) })
    const { status, headers } = await request
    // The time limit holds for the text of the request, but not for that of the response.
    const answer: Answer = { status, headers, body: await request.text() }
    if (invalid?.includes(answer)) await invalidCalls?.penalty(id)
    return answer
  }

  const plain = (address: URL) => chat.plain?.(address) ?? address

  /**
   * Who is connected stays connected, so a stored address need not have a form that is known.
   * @throws ProviderError if the settings do not allow the address.
   */
  function allowed(text: string | undefined): URL {
    const address = text === undefined ? undefined : readAddress(text, settings, name)
    if (address instanceof URL) return address
    throw new ProviderError(id, 'check', 'refused', notAllowed)
  }

  const accountOf = (address: URL): Account =>
    address.href === settings.standInAddress
      ? { accountId: `${id}:stand-in`, channelId: 'stand-in', channelName: 'sales (stand-in)' }
      : chat.account(address)

  function outcomeOf(answer: Answer): PostOutcome {
    if (answer.status === 429) {
      const ms = chat.waitMs?.(answer) ?? askedWaitMs(answer.headers, chat.defaultWaitMs)
      return { kind: 'wait', ms }
    }
    const isOfProxy = isPage(answer.headers)
    const reason = chat.failure(answer)
    if (reason === undefined) {
      return isOfProxy ? { kind: 'failed', reason: 'nonsense' } : { kind: 'posted' }
    }
    return Object.hasOwn(chat.brokenReasons, reason) && !isOfProxy
      ? { kind: 'refused', reason, connectionBroken: true }
      : outcomeOfUnknown(answer, reason)
  }

  async function post(
    text: string | undefined,
    message: ChatMessage,
    key: MessageKey,
  ): Promise<PostOutcome> {
    try {
      const address = allowed(text)
      const { url = plain(address), json } = chat.request(message, key, address)
      return outcomeOf(await ask(url, { method: 'post', json }))
    } catch (error) {
      return error instanceof ProviderError
        ? { kind: 'refused', reason: notAllowed, connectionBroken: true }
        : { kind: 'failed', reason: 'unreachable', code: errorCode(error) }
    }
  }

  /** @throws ProviderError */
  async function lookAt(
    text: string | undefined,
    stage: 'exchange' | 'check',
  ): Promise<Partial<Account>> {
    const address = allowed(text)
    if (look === undefined) return {}
    let answer: Answer
    try {
      answer = await counted(id, stage, () => ask(plain(address), look.request))
    } catch (error) {
      const code = errorCode(error)
      throw new ProviderError(id, stage, 'unreachable', undefined, undefined, { code })
    }
    const found = look.read(answer, address)
    if (found !== undefined) return found
    const outcome = outcomeOf(answer)
    const isRefused = outcome.kind === 'refused' && outcome.connectionBroken
    if (isRefused) throw new ProviderError(id, stage, 'refused', outcome.reason)
    const waitMs = outcome.kind === 'wait' ? outcome.ms : undefined
    const reason = 'reason' in outcome ? outcome.reason : undefined
    throw new ProviderError(id, stage, 'unreachable', reason, waitMs)
  }

  const byAddress: ByAddress = {
    steps: chat.steps,
    asksForName: look?.request.method !== 'get',
    standInAddress: settings.standInAddress,
    problemWith(text) {
      const address = readAddress(text, settings, name)
      if (!(address instanceof URL)) return address
      return text === settings.standInAddress ? undefined : otherForm(address, chat.form, name)
    },
    async prove(address) {
      // Messages need what is left.
      const spent = await invalidCalls?.get(id)
      if (spent?.remainingPoints === 0) return { kind: 'wait', ms: spent.msBeforeNext }
      if (look?.request.method !== 'get') {
        return await countedPost(id, () => post(address, hello, [address]))
      }
      try {
        await lookAt(address, 'check')
        return { kind: 'posted' }
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error
        const { kind, reason = 'unreachable', retryAfterMs } = error
        if (retryAfterMs !== undefined) return { kind: 'wait', ms: retryAfterMs }
        return kind === 'refused'
          ? { kind, reason, connectionBroken: true }
          : { kind: 'failed', reason }
      }
    },
  }

  return {
    inUse: settings.inUse,
    standIn: settings.standIn,
    byAddress,
    pace: chat.pace,
    fits: chat.fits,
    confirms: chat.confirms,
    ...(chat.knowsIds && { knowsIds: true }),
    authorizeUrl: ({ state }) => `${settings.pageUrl}?${new URLSearchParams({ state })}`,
    async exchange({ code }) {
      const { address, channel } = v.parse(pastedAddress, JSON.parse(code))
      const { accountId, channelId, accountName, channelName } = {
        ...accountOf(allowed(address)),
        ...(await lookAt(address, 'exchange')),
      }
      return {
        secrets: { accessToken: '', incomingWebhookUrl: address },
        accessExpiresAt: null,
        accountId,
        accountName: accountName ?? null,
        accountUserId: null,
        grantId: `${accountId}/${channelId}`,
        channelId,
        channelName: channel || (channelName ?? null),
        standIn: address === settings.standInAddress,
      }
    },
    // The address belongs to the user, who can use it elsewhere. It is only forgotten here.
    revoke: async () => {},
    ...(look && {
      check: async ({ incomingWebhookUrl }: Secrets) => await lookAt(incomingWebhookUrl, 'check'),
    }),
    post: ({ incomingWebhookUrl }, _, message, key) =>
      countedPost(id, () => post(incomingWebhookUrl, message, key)),
    brokenReasons: {
      ...chat.brokenReasons,
      [notAllowed]: `this server may no longer call the address of the webhook. Its ${name} addresses are set by whoever runs it`,
    },
    ...(chat.finalReasons && { finalReasons: chat.finalReasons }),
  }
}

/** For `plain`: some people, and some chats, write a slash at the end of the path. */
export function withoutSlash(address: URL): URL {
  const url = new URL(address)
  url.pathname = url.pathname.replace(/\/$/, '')
  return url
}
