const messages = {
  status: 'The server answered with an error',
  timeout: 'The server took too long to answer',
  network: 'The server could not be reached',
  format: 'The server sent an answer that could not be understood',
  /** Something between the page and the backend has answered. */
  page: 'The sign-in in front of this page has probably ended',
  /** The provider came back without a code (§8). */
  code: 'Missing code',
  /** The user has refused at the provider, which then sends no code either. */
  denied: 'Missing code',
  /** The user must connect both services first, so no call was made (§5). Nobody logs this. */
  unconnected: 'Connect both services first',
  /** A fault of our own. The log has its cause. */
  unknown: 'The reason is unknown',
}

type Details = Partial<
  Pick<ApiError, 'status' | 'code' | 'person' | 'field' | 'waitMs' | 'cause'>
> & {
  sentence?: string | undefined
}

/**
 * The error of every query and mutation (`Register` in query-client.ts). Users see its message. It contains no address
 * and no body of an answer, because both may contain an authorization code. Only a call that has nothing to do
 * with codes passes the `sentence` of the answer.
 */
export class ApiError extends Error {
  readonly kind: keyof typeof messages
  /** The HTTP status; undefined if the server did not answer. */
  readonly status: number | undefined
  /** The error code of the answer, if the call reads it. */
  readonly code: string | undefined
  /** The person whom the answer names. */
  readonly person: string | undefined
  /** The first field of the answer that could not be understood, such as `items.0.state`. For the log. */
  readonly field: string | undefined
  /** How long the answer asks to wait before the next call, in milliseconds. */
  readonly waitMs: number | undefined

  constructor(kind: ApiError['kind'], { sentence, cause, ...details }: Details = {}) {
    const words = kind === 'status' ? `${messages.status} (${details.status})` : messages[kind]
    super(sentence ?? words, { cause })
    this.kind = kind
    Object.assign(this, details)
  }

  /** Whether the call has changed nothing, for certain: the server refused it, or it was not made. */
  get isRefusal(): boolean {
    const { status = 0 } = this
    return this.kind === 'unconnected' || (status >= 400 && status < 500)
  }
}
