import type { ChatId, CrmId, DealProperty, ProviderId } from './registry.ts'

/** How this server reaches a provider. */
export interface ProviderSettings {
  clientId: string
  clientSecret: string
  /** The consent page, which the browser opens. */
  authorizeUrl: string
  /** The base address of the API, which this server calls; without a trailing slash. */
  apiUrl: string
  /** No client id is set, so the stand-in on this server plays the provider. */
  standIn: boolean
}

/** What lets us act for the user. Stored only encrypted. */
export interface Secrets {
  accessToken: string
  refreshToken?: string
  /** Slack's address for posting to the channel that the user chose. Whoever has it can post. */
  incomingWebhookUrl?: string
}

/** What a provider gives for an authorization code. */
export interface Grant {
  secrets: Secrets
  /** When the access token ends; null when it does not. */
  accessExpiresAt: Date | null
  accountId: string
  accountName: string | null
  accountUserId: string | null
  /** Two grants with the same id share a token at the provider, so revoking one ends both. */
  grantId: string
  channelId: string | null
  channelName: string | null
}

/** What every provider must implement. */
interface Provider {
  /** The address of the consent page, with PKCE where the provider supports it. */
  authorizeUrl(request: { redirectUri: string; state: string; codeVerifier: string }): string
  /** Exchanges an authorization code for tokens. @throws ProviderError */
  exchange(request: { code: string; redirectUri: string; codeVerifier: string }): Promise<Grant>
  /** @throws ProviderError */
  revoke(secrets: Secrets): Promise<void>
  /** Why the provider no longer accepts a connection, in words, by the provider's own error code. */
  brokenReasons: Readonly<Record<string, string>>
}

/** A property of a deal that got a new value, as a webhook reports it. */
export interface DealEvent {
  /** Two reports of the same change have the same key. */
  key: string
  accountId: string
  dealId: string
  property: DealProperty
  /** The new value: for a stage its id, for an owner the owner's id. Webhooks do not send the old one. */
  value: string
  occurredAt: Date
}

/** A webhook request before anything in it is believed. */
interface WebhookRequest {
  method: string
  /** The configured public address. A proxy may show another one. */
  url: string
  header(name: string): string | undefined
  /** The bytes as they came. Parsing and printing them again would change non-ASCII text. */
  body: Uint8Array
}

type WebhookContent =
  | { kind: 'events'; items: number; events: DealEvent[] }
  /** The signature is missing, wrong or too old. */
  | { kind: 'not signed' }
  /** The body is signed, but it is not what the provider documents. */
  | { kind: 'not understood' }

/** Tokens that replace earlier ones. */
interface RefreshedTokens {
  secrets: Secrets
  accessExpiresAt: Date
}

export interface CrmDeal {
  name: string | null
  /** A decimal number as text. */
  amount: string | null
  currency: string | null
  ownerId: string | null
  /** The deal has a contact or a company. */
  linked: boolean
  /** The values of the property that was asked for, the oldest first. The CRM may leave out the oldest. */
  history: ReadonlyArray<{ value: string; at: Date }>
}

/** What the CRM says about a stage. Do not judge by id or label: people rename and reorder stages. */
export interface Stage {
  id: string
  label: string
  outcome: 'open' | 'won' | 'lost' | 'closed'
}

/** What a CRM must implement. Every call ends within ten seconds. */
export interface Crm extends Provider {
  /** Whether a request with these headers may be a webhook. False refuses it before its body is read. */
  mayBeWebhook(header: (name: string) => string | undefined, nowMs: number): boolean
  /** Checks the signature of a webhook and reads its events. `nowMs` is in ms since 1970. */
  readWebhook(request: WebhookRequest, nowMs: number): WebhookContent
  /** @throws ProviderError */
  refresh(secrets: Secrets): Promise<RefreshedTokens>
  /** The deal with the history of one property; undefined when it does not exist. @throws ProviderError */
  deal(accessToken: string, dealId: string, history: DealProperty): Promise<CrmDeal | undefined>
  /** Every stage of every pipeline. @throws ProviderError */
  stages(accessToken: string): Promise<Stage[]>
  /** Undefined when the app may not read owners. @throws ProviderError */
  ownerName(accessToken: string, ownerId: string): Promise<string | undefined>
  /** The deal's page for people. */
  dealUrl(accountId: string, dealId: string): string
}

export interface ChatMessage {
  /** What a notification and a screen reader say. */
  text: string
  blocks: ReadonlyArray<
    | { type: 'section'; text: { type: 'mrkdwn'; text: string } }
    | { type: 'context'; elements: Array<{ type: 'mrkdwn'; text: string }> }
  >
}

export type PostOutcome =
  | { kind: 'posted' }
  /** The channel takes no message for `ms` milliseconds. */
  | { kind: 'wait'; ms: number }
  /** Another try may help. */
  | { kind: 'failed'; reason: string }
  /** Another try cannot help. `connectionBroken`: only connecting again can. */
  | { kind: 'refused'; reason: string; connectionBroken: boolean }

/** What a chat must implement. */
export interface Chat extends Provider {
  /** Ends within eleven seconds and throws nothing. */
  post(secrets: Secrets, channelId: string, message: ChatMessage): Promise<PostOutcome>
}

/** One implementation for each entry of the registry. */
export type Providers = Record<CrmId, Crm> & Record<ChatId, Chat>

/** How long a provider may take to answer, in milliseconds. */
export interface Timeouts {
  callMs: number
  /** Shorter: the connection is already removed here, and the dashboard waits for the answer. */
  revokeMs: number
}

export const defaultTimeouts: Timeouts = { callMs: 10_000, revokeMs: 5_000 }

/** ky options for a call to a provider: one try, at most `ms` milliseconds in all, no redirects. */
export const oneTry = (ms: number) =>
  // `timeout` alone starts again for the body.
  ({ retry: 0, redirect: 'error', timeout: ms, totalTimeout: ms }) as const

/**
 * A call to a provider that failed. It has no cause and no message from outside, because those can
 * hold addresses, codes and tokens.
 */
export class ProviderError extends Error {
  readonly provider: ProviderId
  readonly stage: 'exchange' | 'introspect' | 'revoke' | 'refresh' | 'read'
  /** The provider refused; it could not be reached; or its answer has an unknown shape. */
  readonly kind: 'refused' | 'unreachable' | 'nonsense'
  /** How long the provider asks us to wait. */
  readonly retryAfterMs: number | undefined
  /** The provider's own error code, such as `invalid_code`. Undefined when it is not a plain code. */
  readonly reason: string | undefined

  constructor(
    provider: ProviderId,
    stage: ProviderError['stage'],
    kind: ProviderError['kind'],
    reason?: unknown,
    retryAfterMs?: number,
  ) {
    super(`${provider}: ${stage} ${kind}`)
    this.retryAfterMs = retryAfterMs
    this.provider = provider
    this.stage = stage
    this.kind = kind
    this.reason =
      typeof reason === 'string' && /^[A-Za-z0-9_]{1,60}$/.test(reason) ? reason : undefined
  }
}
