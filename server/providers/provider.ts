import type { ChatMessage, MessageKey } from './chat-message.ts'
import type { ChangedDeals, CrmDeal, CrmOwner, DealEvent, DealFields, Stage } from './deal.ts'
import type { AddressProblem } from './read-address.ts'
import type { ChatId, CrmId, ProviderId } from './registry.ts'

/** The secrets with which we act for the user. The database contains them only encrypted. */
export interface Secrets {
  accessToken: string
  refreshToken?: string
  /** An address for posts to the channel that the user chose. Anyone with it can post. */
  incomingWebhookUrl?: string
  /** Whether the account lets the app read owners' names; if known. Not secret, but it changes with the tokens. */
  mayReadOwners?: boolean
  /** The base address of the account's API, where each account has its own. Not secret, but the tokens belong to it. */
  apiUrl?: string
}

export interface Grant {
  secrets: Secrets
  /** When the access token expires; null if it does not. */
  accessExpiresAt: Date | null
  accountId: string
  accountName: string | null
  accountUserId: string | null
  /** Two grants with the same id share a token at the provider. A revocation ends both. */
  grantId: string
  channelId: string | null
  channelName: string | null
  /** Whether a stand-in granted it, if the settings do not say. */
  standIn?: boolean
  /** Why Dealbell cannot use it: a code of `brokenReasons`. It is then ended, unless another user shares it. */
  unusable?: string
}

/** The current names of what is connected. A name that the provider does not tell is undefined. */
export interface Names {
  accountName?: string | undefined
  channelName?: string | undefined
}

/** What every provider must implement. The calls throw ProviderError. */
interface Provider {
  /** Whether this server uses this provider, and whether its stand-in plays it. */
  readonly inUse: boolean
  readonly standIn: boolean
  /** The address of the consent page, with PKCE where the provider supports it. */
  authorizeUrl(request: { redirectUri: string; state: string; codeVerifier: string }): string
  exchange(request: { code: string; redirectUri: string; codeVerifier: string }): Promise<Grant>
  /** @param of the account, and the id of the webhook that `Crm.webhooks` made; null if there is none. */
  revoke(secrets: Secrets, of: { accountId: string; webhookId: string | null }): Promise<void>
  /** Says why the provider no longer accepts a connection, for each error code of the provider. */
  brokenReasons: Readonly<Record<string, string>>
  /** Those after which the provider wants no further call. */
  readonly finalReasons?: ReadonlySet<string>
}

/** The stored reason of a connection that a provider no longer accepts, with a code that `brokenReasons` lacks. */
export const unknownRefusal = (provider: ProviderId, code: string) => `${provider}_refused_${code}`

/** A webhook request that nobody has checked yet. */
interface WebhookRequest {
  method: string
  /** The address that the CRM called, by the settings. Behind a proxy, the request has another one. */
  url: string
  header(name: string): string | undefined
  /** The received bytes. To parse and print them again would change non-ASCII text. */
  body: Uint8Array
}

/**
 * Why a webhook is refused:
 * - `missing`: it has no signature, or none of the documented form.
 * - `time`: it was signed too long ago, or in the future. Or our clock is wrong.
 * - `signature`: none of our secrets made the signature, or it is for another address or body.
 */
export type WebhookRefusal = 'missing' | 'time' | 'signature'

type WebhookContent =
  /** `notUnderstood`: how many of the items are about deals, but have an unknown form. */
  | { kind: 'events'; items: number; events: DealEvent[]; notUnderstood: number }
  | { kind: 'not signed'; why: WebhookRefusal }
  /** The signature is valid, but the body does not have the documented form. */
  | { kind: 'not understood' }

interface RefreshedTokens {
  secrets: Secrets
  accessExpiresAt: Date
}

/** The most important calls come first when an account's limit makes calls wait. */
export type Urgency =
  /** For an event that has just arrived, and for what keeps a connection working. */
  | 'fresh'
  /** For several events that wait in a channel. */
  | 'backlog'
  /** Only while the account has room to spare. */
  | 'spare'

export interface CrmAccess {
  accountId: string
  accessToken: string
  urgency: Urgency
  /** The base address of the account's API, where each account has its own. */
  apiUrl?: string | undefined
  /** Connections with the same value share what is read. The default is the account's id. */
  sharedBy?: string
  /** False: the account does not let the app read the names of owners. Undefined: not known. */
  mayReadOwners?: boolean | undefined
}

/**
 * What a CRM must implement. Each request to the CRM ends within ten seconds, after its wait for the limit. A call
 * may need several, one after another.
 */
export interface Crm extends Provider {
  /**
   * What a token can read. `account`: every token of an account sees all its deals, so one read serves all users.
   * `user`: a token sees what its user may see, so what was read with it is never shown to another user.
   */
  readonly readsAs: 'account' | 'user'
  /** How long the names of stages may be used, in ms, where a read of them costs much. */
  readonly stagesFreshMs?: number
  /**
   * Why a request with these headers cannot be a webhook; undefined if it may be one. The server then
   * refuses it before it reads its body.
   */
  webhookRefusal(
    header: (name: string) => string | undefined,
    nowMs: number,
  ): WebhookRefusal | undefined
  /** Checks the signature of a webhook and reads its events. `nowMs` is in ms since 1970. */
  readWebhook(request: WebhookRequest, nowMs: number): WebhookContent
  /** The most new events of an account that are stored in an hour, if somebody in the account can make them up. */
  readonly mostEventsAnHour?: number
  /** Exchanges the refresh token for new tokens. @throws ProviderError */
  refresh(secrets: Secrets): Promise<RefreshedTokens>
  names(access: CrmAccess): Promise<Names>
  /**
   * Removes the app from the account, which ends all webhooks and tokens. Missing if each user installs it alone:
   * `revoke` then does this. @throws ProviderError
   */
  uninstall?(accessToken: string): Promise<void>
  /** The users' webhooks, each of which its user's token makes. Missing if the app's settings say where events go. */
  readonly webhooks?: {
    /**
     * Looks for the webhook of a grant that was made with this id, or another one at our address. Deletes the grant's
     * others of these. @returns the id; undefined if none works. @throws ProviderError
     */
    find(
      access: CrmAccess,
      of: { grantId: string; webhookId: string | null },
    ): Promise<string | undefined>
    /** Has the CRM send the user's events to this server. @returns the webhook's id. @throws ProviderError */
    make(access: CrmAccess): Promise<string>
  }
  /**
   * Reads a call by which the CRM says that a user has uninstalled the app there. Undefined if the CRM did not make it.
   * Missing if the CRM does not say so.
   */
  uninstalledBy?(
    request: Pick<WebhookRequest, 'header' | 'body'>,
  ): { accountId: string; accountUserId: string } | undefined
  /** Reads a deal. Undefined if there is none. @throws ProviderError */
  deal(access: CrmAccess, dealId: string, fields: DealFields): Promise<CrmDeal | undefined>
  /** The most deals of one call of `deals`. */
  readonly dealsAtOnce: number
  /** The most deals of one call of `deals` with a history, if fewer. */
  readonly historiesAtOnce?: number
  /**
   * Reads deals. Their links may be undefined. The answer lacks deals that do not exist, and may lack deals that were
   * merged. @param history as in `DealFields`. @throws ProviderError
   */
  deals(
    access: CrmAccess,
    dealIds: readonly string[],
    history: DealFields['history'],
  ): Promise<Map<string, CrmDeal>>
  /** The most deals of one call of `linked`. */
  readonly linksAtOnce: number
  /**
   * Says of each deal whether it has a contact or a company. Lacks deals that do not exist, if the CRM says so.
   * @throws ProviderError
   */
  linked(access: CrmAccess, dealIds: readonly string[]): Promise<Map<string, boolean>>
  /** Finds deals of which anything changed since a time, the oldest change first. @throws ProviderError */
  changedDeals(access: CrmAccess, since: Date): Promise<ChangedDeals>
  /** Reads all stages of all pipelines, in the CRM's order. @throws ProviderError */
  stages(access: CrmAccess): Promise<Stage[]>
  /**
   * Reads who owns deals. Undefined if there is no such owner.
   * @throws ProviderError with the kind `refused` if the app may not read owners.
   */
  owner(access: CrmAccess, ownerId: string): Promise<CrmOwner | undefined>
  /** Returns the usual address of a deal's page in the CRM, for deals that were not read. */
  dealUrl(account: { accountId: string; accountName: string | null }, dealId: string): string
}

export type PostOutcome =
  | { kind: 'posted' }
  /** The account accepts no message in any of its channels for `ms` milliseconds. */
  | { kind: 'wait'; ms: number }
  /** Another try may help. `code`: why there was no answer. */
  | { kind: 'failed'; reason: string; code?: string | undefined }
  /**
   * Another try cannot help. If `connectionBroken`, the user must connect again. `at` names the places in the message
   * that the chat complains of.
   */
  | { kind: 'refused'; reason: string; connectionBroken: boolean; at?: string | undefined }
  /** Refused, but the answer does not say whether the message or the connection. */
  | { kind: 'unclear'; reason: string; at?: string | undefined }

/** What our page needs of such a chat. */
export interface ByAddress {
  readonly steps: readonly string[]
  /** Whether the chat does not tell a channel's name. */
  readonly asksForName: boolean
  readonly standInAddress: string | undefined
  /** Why users cannot connect this address. Undefined if they can. It calls nothing. */
  problemWith(text: string): AddressProblem | undefined
  /** Shows that the channel gets messages, if nothing else can, by a post. */
  prove(address: string): Promise<PostOutcome>
}

/** How fast a chat takes messages. An account is what shares a limit: a workspace, or only one channel. */
export interface Pace {
  /** The time from one message in a channel to the next, in ms. At most `longestChannelMs`. */
  channelMs: number
  /** The messages per second of all channels of one account, and how many may come at once after a pause. */
  perSecond: number
  burst: number
}

/** After a message, no channel waits longer for the next one, unless its chat asks for a pause. */
export const longestChannelMs = 2_000

/** What a chat must implement. */
export interface Chat extends Provider {
  readonly pace: Readonly<Pace>
  /** Whether a message that the chat has accepted is in the channel. */
  readonly confirms: boolean
  /** Set if the chat posts a message once that comes twice with one key. */
  readonly knowsIds?: true
  /** If users paste the address of a webhook. */
  readonly byAddress?: ByAddress
  /** Whether the chat takes the message as a whole. One about a single change always fits. */
  fits(message: ChatMessage): boolean
  /**
   * Asks whether the chat still accepts the connection, and for the names. Missing if only a message can show that.
   * @throws ProviderError
   */
  check?(secrets: Secrets, channelId: string | null): Promise<Names>
  /**
   * Finds the member of the workspace with this e-mail address, within three seconds. Returns the member's id;
   * undefined if there is none. Missing if the settings do not allow to mention owners. @throws ProviderError
   */
  memberWithEmail?(secrets: Secrets, email: string): Promise<string | undefined>
  /** Posts a message. Ends within eleven seconds and throws nothing. */
  post(
    secrets: Secrets,
    channelId: string,
    message: ChatMessage,
    key: MessageKey,
  ): Promise<PostOutcome>
}

export type Providers = Record<CrmId, Crm> & Record<ChatId, Chat>

/** The longest wait that a provider may ask for, in milliseconds. After it, we ask again. */
export const longestWaitMs = 60 * 60_000
