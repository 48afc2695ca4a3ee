import type { ProviderSettings } from '../../server/providers/calls.ts'
import { cut } from '../../server/providers/foreign-text.ts'
import type { Site } from '../page.ts'
import type { StandInCodes } from '../tokens.ts'
import type { Blocks } from './blocks.ts'

/** The only workspace of the stand-in Slack, and the person who is signed in to it. */
export const standInWorkspace = {
  teamId: 'T0STANDIN1',
  teamName: 'Acme (stand-in)',
  userId: 'U0STANDIN1',
  botUserId: 'U0STANDBOT',
  botId: 'B0STANDBOT',
  appId: 'A0STANDIN1',
  /** The e-mail addresses are those of owners in the stand-in HubSpot. One of them has left the workspace. */
  members: [
    {
      id: 'U0ALEX0001',
      name: 'alex',
      realName: 'Alex Rivera',
      email: 'alex.rivera@stand-in.example',
      deleted: false,
    },
    {
      id: 'U0ROBIN001',
      name: 'robin',
      realName: 'Robin Chen',
      email: 'robin.chen@stand-in.example',
      deleted: true,
    },
  ],
  /** Only one has invited the bot. People can choose the others too: their webhooks work. */
  channels: [
    { id: 'C0SALES001', name: 'sales-floor', hasBot: true },
    { id: 'C0DEALS001', name: 'deals', hasBot: false },
    { id: 'C0RANDOM01', name: 'random', hasBot: false },
  ],
}

const knownScopes = [
  'incoming-webhook',
  'chat:write',
  'channels:read',
  'users:read',
  'users:read.email',
]

/** The scopes in the parameter of a request for consent. Anybody can write it, so it may be long. */
export function scopesIn(parameter: string): string[] {
  const asked = parameter.split(',')
  return knownScopes.filter((scope) => asked.includes(scope))
}

/** What the pages and the API of the workspace share. */
export interface SlackAccount {
  site: Site
  settings: ProviderSettings
  appUrl: string
  /** The path of the page with the channels. */
  list: string
  /** Each stands for the channel that a person has chosen, and the scopes that the app asked for. */
  codes: StandInCodes<{ channel: string; scopes: string[] }>
  channels: StandInChannels
}

export interface StandInMessage {
  /** The id that the app has given it. */
  id: string | undefined
  at: Date
  text: string
  blocks: Blocks
}

/** A channel keeps so many messages, with so many characters of JSON. The oldest go first. */
const maxMessages = 200
const maxCharacters = 200_000

/** The channels of the workspace, with their messages. They forget everything when the server stops. */
export class StandInChannels {
  /** The ids of archived channels. */
  readonly archived = new Set<string>()
  /** The id of the channel that was last posted to, or chosen. */
  latest = standInWorkspace.channels[0]?.id
  #posted = 0
  readonly #messages = new Map<string, StandInMessage[]>()
  readonly #knowsIds: boolean

  /** @param knowsIds It takes a message once that comes twice with one id. Slack does not document whether it does. */
  constructor({ knowsIds = true } = {}) {
    this.#knowsIds = knowsIds
  }

  find(id: string | undefined) {
    return standInWorkspace.channels.find((channel) => channel.id === id)
  }

  /** The channels that people can choose. Slack does not offer archived ones. */
  open() {
    return standInWorkspace.channels.filter(({ id }) => !this.archived.has(id))
  }

  /** Names the state of all channels: it changes with each message, and when a channel is archived. */
  get version(): string {
    return [this.#posted, ...this.archived].join('-')
  }

  /** @returns when the channel got the message. */
  post(id: string, text: string, blocks: Blocks, messageId?: string): Date {
    const isSame = (one: StandInMessage) => messageId !== undefined && one.id === messageId
    const earlier = this.#knowsIds ? this.messages(id).find(isSame) : undefined
    if (earlier !== undefined) return earlier.at
    this.latest = id
    this.#posted++
    const message = { id: messageId, at: new Date(), text: cut(text, 3_000), blocks }
    const kept: StandInMessage[] = []
    let characters = 0
    for (const one of [message, ...this.messages(id)].slice(0, maxMessages)) {
      characters += JSON.stringify(one).length
      if (characters > maxCharacters) break
      kept.push(one)
    }
    this.#messages.set(id, kept)
    return message.at
  }

  /** The newest first. */
  messages(id: string): readonly StandInMessage[] {
    return this.#messages.get(id) ?? []
  }
}
