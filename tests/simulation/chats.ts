import type { AddressChat } from '../../server/providers/by-address.ts'
import { discord } from '../../server/providers/discord/discord.ts'
import { googleChat } from '../../server/providers/google-chat/google-chat.ts'
import { mattermost } from '../../server/providers/mattermost/mattermost.ts'
import { teams } from '../../server/providers/microsoft-teams/microsoft-teams.ts'
import type { Pace } from '../../server/providers/provider.ts'
import {
  type AddressId,
  addressIds,
  type ChatId,
  isAddressId,
} from '../../server/providers/registry.ts'
import type { StandInChat } from '../../stand-ins/by-address.ts'
import { standInDiscord } from '../../stand-ins/discord/discord.ts'
import { standInGoogleChat } from '../../stand-ins/google-chat/google-chat.ts'
import { standInMattermost } from '../../stand-ins/mattermost/mattermost.ts'
import { standInTeams } from '../../stand-ins/microsoft-teams/microsoft-teams.ts'
import { second } from './faults.ts'
import type { Dice } from './time.ts'

// The chats of a run. What a chat takes and keeps is written here again, so that a change of server/providers/ is seen.

export type AccountPace = Pick<Pace, 'perSecond' | 'burst'>

interface KnownChat {
  /** A channel gets one message in this time. */
  apartMs: number
  /** The channels of one account get so many messages together. */
  pace: AccountPace
  /** Takes a message once that comes twice with one id. Undefined: the seed decides. */
  knowsIds?: boolean
  /** Why a connection breaks after its channel is closed. */
  closed: string
}

interface KnownByAddress extends KnownChat {
  chat: AddressChat
  standIn: StandInChat
  /** The path and query of the webhook of a channel. */
  address: (channel: string) => string
  /** The answer with which it refuses a webhook by mistake. */
  mistake: { status: number; body: object }
}

const slow: AccountPace = { perSecond: 0.5, burst: 1 }
const fast: AccountPace = { perSecond: 5, burst: 20 }

const slack: KnownChat = { apartMs: second, pace: fast, closed: 'is_archived' }

const byAddress: Record<AddressId, KnownByAddress> = {
  'microsoft-teams': {
    apartMs: 2 * second,
    pace: slow,
    knowsIds: false,
    closed: 'WorkflowNotFound',
    chat: teams,
    standIn: standInTeams,
    address: (channel) =>
      `/powerautomate/automations/direct/cu/22/workflows/${channel}aaaa/triggers/manual/paths/invoke?sig=${channel}`,
    mistake: { status: 401, body: { error: { code: 'DirectApiAuthorizationRequired' } } },
  },
  'google-chat': {
    apartMs: 2 * second,
    pace: slow,
    knowsIds: true,
    closed: 'NOT_FOUND',
    chat: googleChat,
    standIn: standInGoogleChat,
    address: (channel) => `/v1/spaces/${channel}/messages?key=key&token=token`,
    mistake: { status: 403, body: { error: { status: 'PERMISSION_DENIED' } } },
  },
  discord: {
    apartMs: 2 * second,
    pace: slow,
    knowsIds: false,
    closed: 'code_10015',
    chat: discord,
    standIn: standInDiscord,
    address: (channel) =>
      `/api/webhooks/${channel.replace(/\D/g, '').padStart(17, '1')}/${channel.padEnd(20, '-')}`,
    mistake: { status: 401, body: { code: 50_027, message: 'Invalid Webhook Token' } },
  },
  mattermost: {
    apartMs: second,
    pace: fast,
    knowsIds: false,
    closed: 'web_incoming_webhook_invalid',
    chat: mattermost,
    standIn: standInMattermost,
    address: (channel) => `/hooks/${channel.toLowerCase().padEnd(26, 'a')}`,
    mistake: { status: 403, body: { id: 'web.incoming_webhook.permissions.app_error' } },
  },
}

export const knownChat = (id: ChatId): KnownChat => (isAddressId(id) ? byAddress[id] : slack)

/** Draws the chat of all users of a run. */
export function drawChat(dice: Dice): ChatId {
  return dice.chance(0.3) ? dice.oneOf(addressIds as [AddressId, ...AddressId[]]) : 'slack'
}

export const base = 'https://outside.test'

interface Webhook {
  id: AddressId
  url: URL
  /** What a plan calls the channel, such as T1/C1, and what the relay does. */
  planned: string
  channel: string
}

const planned = ['T1', 'T2', 'T9'].flatMap((team) =>
  [1, 2, 3, 4, 5, 9].map((number) => `${team}/C${number}`),
)
const webhooks: readonly Webhook[] = addressIds.flatMap((id) =>
  planned.map((name) => {
    const url = new URL(base + byAddress[id].address(name.replace('/', '')))
    const { accountId, channelId } = byAddress[id].chat.account(url)
    return { id, url, planned: name, channel: `${accountId}/${channelId}` }
  }),
)

/** The webhook of a channel of a chat by address. */
export const webhookOf = (channel: string): Webhook | undefined =>
  webhooks.find((each) => each.channel === channel)
export const webhookAt = ({ pathname }: URL): Webhook | undefined =>
  webhooks.find(({ url }) => url.pathname === pathname)

/** The name in the relay of the channel that a plan calls 'T1/C1'. */
export const channelIn = (id: ChatId, name: string): string =>
  webhooks.find((each) => each.id === id && each.planned === name)?.channel ?? name

/** What the chat says of a message, and what people see of it. */
export async function readAt(
  id: AddressId,
  url: URL,
  body: string,
): Promise<{ shown: string; id?: string | undefined } | { refused: Response }> {
  const query = Object.fromEntries(url.searchParams)
  const read = byAddress[id].standIn.read({ query, body: JSON.parse(body) })
  return 'error' in read
    ? { refused: answer(read.status, read.error) }
    : { shown: String(await read.shown), id: read.id }
}

export function acceptedAt(id: AddressId): Response {
  const { status, body } = byAddress[id].standIn.accepted
  return answer(status, body)
}

/** What it says of a webhook that is asked for. */
export function aboutAt({ id, channel }: Webhook): Response {
  const { about } = byAddress[id].standIn
  return answer(200, about === undefined ? '' : { ...about, channel_id: channel.split('/')[1] })
}

export function closedAt(id: AddressId): Response {
  const { status, error } = byAddress[id].standIn.deleted
  return answer(status, error)
}

export function mistakeAt(id: AddressId): Response {
  const { status, body } = byAddress[id].mistake
  return answer(status, body)
}

/** An error with a code that nobody knows. Slack says with 200 that it refuses a call. */
export function unknownAt(id: AddressId | undefined, status: number): Response {
  if (id !== undefined) return answer(status, byAddress[id].standIn.unknown)
  return answer(status < 500 ? 200 : status, { ok: false, error: 'unheard' })
}

const answer = (status: number, body: object | string) =>
  typeof body === 'string'
    ? new Response(body || null, { status })
    : Response.json(body, { status })
