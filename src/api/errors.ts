export type ApiErrorKind = 'status' | 'timeout' | 'network' | 'format'

const messages: Record<ApiErrorKind, string> = {
  status: 'The server answered with an error',
  timeout: 'The server took too long to answer',
  network: 'The server could not be reached',
  format: 'The server sent an answer that could not be understood',
}

/**
 * The error of every failed call to the backend. Users see its message. It contains no address and
 * no body of an answer, because both may contain an authorization code. Only a call that has nothing to do
 * with codes passes the `sentence` of the answer.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly kind: ApiErrorKind
  /** The HTTP status; undefined if the server did not answer. */
  readonly status: number | undefined
  /** The person whom the answer names. */
  readonly person: string | undefined

  constructor(kind: ApiErrorKind, status?: number, sentence?: string, person?: string) {
    super(sentence ?? (kind === 'status' ? `${messages.status} (${status})` : messages[kind]))
    this.kind = kind
    this.status = status
    this.person = person
  }
}
