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

/** How long the outside world may take, in milliseconds. */
export interface Timeouts {
  /** For a call that a person waits for. */
  callMs: number
  /** Shorter: the connection is already removed here, and the dashboard waits for the answer. */
  revokeMs: number
}

export const defaultTimeouts: Timeouts = { callMs: 10_000, revokeMs: 5_000 }

/**
 * A call to a provider that failed. It carries no cause and no message from outside: those hold
 * addresses, codes and tokens.
 */
export class ProviderError extends Error {
  readonly provider: ProviderId
  readonly stage: 'exchange' | 'introspect' | 'revoke'
  /** The provider said no; it could not be reached; or it answered what we do not understand. */
  readonly kind: 'refused' | 'unreachable' | 'nonsense'
  /** The provider's own word for the refusal, such as `invalid_code`, when it is a plain code. */
  readonly reason: string | undefined

  constructor(
    provider: ProviderId,
    stage: ProviderError['stage'],
    kind: ProviderError['kind'],
    reason?: unknown,
  ) {
    super(`${provider}: ${stage} ${kind}`)
    this.provider = provider
    this.stage = stage
    this.kind = kind
    this.reason =
      typeof reason === 'string' && /^[A-Za-z0-9_]{1,60}$/.test(reason) ? reason : undefined
  }
}
