export type ApiErrorKind = 'status' | 'timeout' | 'network' | 'format'

const messages: Record<ApiErrorKind, string> = {
  status: 'The server answered with an error',
  timeout: 'The server took too long to answer',
  network: 'The server could not be reached',
  format: 'The server sent an answer that could not be understood',
}

/**
 * The one error that a call to the backend ends in. Its message is made here and shown as it is:
 * it never holds an address or an answer's body, since either may hold an authorization code.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly kind: ApiErrorKind
  /** The HTTP status, when the server answered at all. */
  readonly status: number | undefined

  constructor(kind: ApiErrorKind, status?: number) {
    super(kind === 'status' ? `${messages.status} (${status})` : messages[kind])
    this.kind = kind
    this.status = status
  }
}
