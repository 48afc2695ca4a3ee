import type { ProviderId } from './registry.ts'

/** The error of a failed call to a provider. It contains nothing of the original error: neither addresses nor tokens. */
export class ProviderError extends Error {
  readonly provider: ProviderId
  readonly stage: 'exchange' | 'introspect' | 'revoke' | 'refresh' | 'read' | 'uninstall' | 'check'
  /**
   * - `refused`: another try cannot help.
   * - `unauthorized`: the access token did not count. A new one may.
   * - `unreachable`: there was no answer, or a temporary one.
   * - `nonsense`: the answer has an unknown form.
   */
  readonly kind: 'refused' | 'unauthorized' | 'unreachable' | 'nonsense'
  /** The wait that the provider asks for, in milliseconds. */
  readonly retryAfterMs: number | undefined
  /** The provider's error code, such as `invalid_code`. Undefined if it does not look like a code. */
  readonly reason: string | undefined
  /** What is not as expected in an answer of an unknown form, such as `results.0.label`. */
  readonly field: string | undefined
  /** Why there was no answer, such as `ECONNREFUSED`. */
  readonly code: string | undefined
  constructor(
    provider: ProviderId,
    stage: ProviderError['stage'],
    kind: ProviderError['kind'],
    reason?: unknown,
    retryAfterMs?: number,
    { field, code }: { field?: string | undefined; code?: string | undefined } = {},
  ) {
    super(`${provider}: ${stage} ${kind}${field === undefined ? '' : ` in ${field}`}`)
    this.field = field
    this.code = code
    this.retryAfterMs = retryAfterMs
    this.provider = provider
    this.stage = stage
    this.kind = kind
    this.reason =
      typeof reason === 'string' && /^[A-Za-z0-9_]{1,60}$/.test(reason) ? reason : undefined
  }

  get fields() {
    const { stage, kind, reason, field, code } = this
    return { stage, kind, reason, field, code }
  }
}

/** The reason of a ProviderError after AnswerTooLarge. */
export const answerTooLarge = 'answer_too_large'
/** Whether a call for less may succeed. */
export const isTooLarge = (error: unknown) =>
  error instanceof ProviderError && error.reason === answerTooLarge

/** Whether the same call would probably get the same answer again. A page of a proxy has no field. */
export const isLasting = (error: unknown) =>
  error instanceof ProviderError &&
  error.kind === 'nonsense' &&
  (error.field !== undefined || isTooLarge(error))

/** Whether a call failed because of its token. The token of another user may do. */
export const isOfToken = (error: unknown): boolean =>
  error instanceof ProviderError && (error.kind === 'refused' || error.kind === 'unauthorized')

/** The CRM answered, but with an error that one of several deals may have caused. */
export function mayBeOfOneDeal(error: unknown): boolean {
  if (!(error instanceof ProviderError) || error.retryAfterMs !== undefined) return false
  return error.kind === 'nonsense' || (error.kind === 'unreachable' && error.reason !== undefined)
}
