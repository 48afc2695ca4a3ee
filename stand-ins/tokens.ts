import { createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import * as v from 'valibot'

const payloadShape = v.object({
  /** The authorization that the token belongs to. */
  grant: v.string(),
  use: v.picklist(['access', 'refresh']),
  /** Milliseconds since 1970; null for a token that does not end. */
  endsAt: v.nullable(v.number()),
  scopes: v.exactOptional(v.array(v.string())),
})
export type TokenPayload = v.InferOutput<typeof payloadShape>

const issuedJson = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({ ...payloadShape.entries, issuedAt: v.optional(v.number(), 0) }),
)

/** Anyone can revoke tokens, so the oldest revocations are forgotten. */
const maxRevoked = 10_000

/**
 * The tokens of a stand-in. A token contains its meaning and a signature. So a connection survives a
 * restart of the server, as with a real provider. Only revocations are kept in memory.
 */
export class StandInTokens {
  readonly #secret: string
  readonly #prefix: string
  /** The oldest first. */
  readonly #revoked = new Set<string>()
  /** All tokens that were issued up to this time have ended. */
  #endedUntil = -1

  constructor(prefix: string, secret: string) {
    this.#prefix = prefix
    this.#secret = secret
  }

  issue(payload: TokenPayload): string {
    const issuedAt = Math.max(Date.now(), this.#endedUntil + 1)
    const content = JSON.stringify({ ...payload, issuedAt, id: randomUUID() })
    const body = Buffer.from(content).toString('base64url')
    return `${this.#prefix}${body}.${this.#sign(body)}`
  }

  /** What a token means, or why it is not valid. */
  read(token: string): TokenPayload | 'invalid' | 'revoked' | 'expired' {
    const [body = '', signature = ''] = token.slice(this.#prefix.length).split('.')
    const expected = Buffer.from(this.#sign(body))
    const given = Buffer.from(signature)
    if (!token.startsWith(this.#prefix) || given.length !== expected.length) return 'invalid'
    if (!timingSafeEqual(given, expected)) return 'invalid'
    // Another version may have signed content of another form.
    const content = v.safeParse(issuedJson, Buffer.from(body, 'base64url').toString())
    if (!content.success) return 'invalid'
    const { issuedAt, ...payload } = content.output
    if (issuedAt <= this.#endedUntil || this.#isRevoked(payload)) return 'revoked'
    if (payload.endsAt !== null && payload.endsAt < Date.now()) return 'expired'
    return payload
  }

  /** Ends all tokens of an authorization, or only those for one use. */
  revoke({ grant }: Pick<TokenPayload, 'grant'>, use?: TokenPayload['use']): void {
    this.#revoked.add(use === undefined ? grant : `${grant}/${use}`)
    forgetOldest(this.#revoked, maxRevoked)
  }

  /** Ends all tokens of all authorizations. */
  revokeAll(): void {
    this.#endedUntil = Date.now()
  }

  #isRevoked({ grant, use }: TokenPayload): boolean {
    return this.#revoked.has(grant) || this.#revoked.has(`${grant}/${use}`)
  }

  #sign(body: string): string {
    return createHmac('sha256', this.#secret).update(body).digest('base64url')
  }
}

const codeLifetimeMs = 5 * 60 * 1000
/** Anyone can request codes, so the oldest make room for new ones. */
const maxCodes = 1_000

/** The authorization codes of a stand-in. Each is single use and bound to its request. */
export class StandInCodes<Binding> {
  /** The oldest first. */
  readonly #open = new Map<string, { binding: Binding; endsAt: number }>()

  issue(binding: Binding): string {
    const code = randomBytes(24).toString('base64url')
    this.#open.set(code, { binding, endsAt: Date.now() + codeLifetimeMs })
    forgetOldest(this.#open, maxCodes)
    return code
  }

  take(code: string): Binding | undefined {
    const found = this.#open.get(code)
    this.#open.delete(code)
    return found !== undefined && found.endsAt >= Date.now() ? found.binding : undefined
  }
}

/** Deletes the oldest keys, so that at most this many are left. */
export function forgetOldest<Key>(kept: Map<Key, unknown> | Set<Key>, most: number): void {
  for (const oldest of kept.keys()) {
    if (kept.size <= most) break
    kept.delete(oldest)
  }
}

/** Counts calls. The function returns how many more may be made; undefined if this one may not. */
export function countCalls({ calls, intervalMs }: { calls: number; intervalMs: number }) {
  let made: number[] = []
  return function take(): number | undefined {
    const now = performance.now()
    made = made.filter((at) => at > now - intervalMs)
    if (made.length >= calls) return undefined
    made.push(now)
    return calls - made.length
  }
}
