/** The services that this backend can connect; the id stands in paths. */
export type ProviderId = 'hubspot' | 'slack'

/** What lets us act for the user. Stored only encrypted. */
export interface Secrets {
  accessToken: string
  refreshToken?: string
  /** Slack's address for posting to the channel that the user chose; whoever has it can post. */
  incomingWebhookUrl?: string
}

/** What a provider gives for a code. */
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

export interface Provider {
  /** Where the browser goes to consent. */
  authorizeUrl(request: { redirectUri: string; state: string; codeVerifier: string }): string
  /** @throws ProviderError */
  exchange(request: { code: string; redirectUri: string; codeVerifier: string }): Promise<Grant>
  /** @throws ProviderError */
  revoke(secrets: Secrets): Promise<void>
}

/** Tokens that replace former ones. */
interface Refreshed {
  secrets: Secrets
  accessExpiresAt: Date
}

/** A deal as HubSpot tells it; ids and labels of stages are in `stages()`. */
interface CrmDeal {
  name: string | null
  /** A decimal number in text. */
  amount: string | null
  currency: string | null
  ownerId: string | null
  /** A contact or a company stands on it. */
  linked: boolean
  /** The stages that it came into, the oldest first; HubSpot may leave out the oldest. */
  stageHistory: ReadonlyArray<{ stageId: string; at: Date }>
}

/** What the relay reads in a CRM. Every call ends within ten seconds. */
export interface Crm {
  /** @throws ProviderError */
  refresh(secrets: Secrets): Promise<Refreshed>
  /** Undefined when there is no such deal (any more). @throws ProviderError */
  deal(accessToken: string, dealId: string): Promise<CrmDeal | undefined>
  /** Every stage of every pipeline. @throws ProviderError */
  stages(accessToken: string): Promise<Stage[]>
  /** Undefined when the app may not read owners. @throws ProviderError */
  ownerName(accessToken: string, ownerId: string): Promise<string | undefined>
  /** The deal's page for people. */
  dealUrl(accountId: string, dealId: string): string
}

/** What a CRM says of a stage. Its id and label say nothing: people rename and reorder stages. */
export interface Stage {
  id: string
  label: string
  outcome: 'open' | 'won' | 'lost' | 'closed'
}

/** What became of a message. */
export type PostOutcome =
  | { kind: 'posted' }
  /** The channel takes nothing for so long. */
  | { kind: 'wait'; ms: number }
  | { kind: 'failed'; reason: string }
  /** No other try can help. The connection is broken when only connecting again can. */
  | { kind: 'refused'; reason: string; connectionBroken: boolean }

export interface ChatMessage {
  /** What a notification and a screen reader say. */
  text: string
  blocks: ReadonlyArray<
    | { type: 'section'; text: { type: 'mrkdwn'; text: string } }
    | { type: 'context'; elements: Array<{ type: 'mrkdwn'; text: string }> }
  >
}

/** Where the relay posts. Ends within eleven seconds, and throws nothing. */
export interface Chat {
  post(secrets: Secrets, channelId: string, message: ChatMessage): Promise<PostOutcome>
}

/** How long the outside world may take, in milliseconds. */
export interface Timeouts {
  /** For a call that a person waits for. */
  callMs: number
  /** Shorter: the connection is already removed here, and the dashboard waits for the answer. */
  revokeMs: number
}

export const defaultTimeouts: Timeouts = { callMs: 10_000, revokeMs: 5_000 }

/** How ky calls a provider: once, within `ms` in all, and never where a redirect leads. */
export const oneTry = (ms: number) =>
  // `timeout` alone counts anew for the body.
  ({ retry: 0, redirect: 'error', timeout: ms, totalTimeout: ms }) as const

/**
 * A call to a provider that failed. It carries no cause and no message from outside: those hold
 * addresses, codes and tokens.
 */
export class ProviderError extends Error {
  readonly provider: ProviderId
  readonly stage: 'exchange' | 'introspect' | 'revoke' | 'refresh' | 'read'
  /** The provider said no; it could not be reached; or it answered what we do not understand. */
  readonly kind: 'refused' | 'unreachable' | 'nonsense'
  /** How long the provider asks us to wait. */
  readonly retryAfterMs: number | undefined
  /** The provider's own word for the refusal, such as `invalid_code`, when it is a plain code. */
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
