import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import * as v from 'valibot'

const payloadShape = v.object({
  /** The authorization that the token belongs to. Revoking ends all its tokens. */
  grant: v.string(),
  use: v.picklist(['access', 'refresh']),
  /** Milliseconds since 1970; null for a token that does not end. */
  endsAt: v.nullable(v.number()),
})
export type TokenPayload = v.InferOutput<typeof payloadShape>

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

  constructor(prefix: string, secret: string) {
    this.#prefix = prefix
    this.#secret = secret
  }

  issue(payload: TokenPayload): string {
    const body = Buffer.from(JSON.stringify({ ...payload, id: randomUUID() })).toString('base64url')
    return `${this.#prefix}${body}.${this.#sign(body)}`
  }

  /** What a token means, or why it is not valid. */
  read(token: string): TokenPayload | 'invalid' | 'revoked' | 'expired' {
    const [body = '', signature = ''] = token.slice(this.#prefix.length).split('.')
    const expected = Buffer.from(this.#sign(body))
    const given = Buffer.from(signature)
    if (!token.startsWith(this.#prefix) || given.length !== expected.length) return 'invalid'
    if (!timingSafeEqual(given, expected)) return 'invalid'
    const payload = v.parse(payloadShape, JSON.parse(Buffer.from(body, 'base64url').toString()))
    if (this.#revoked.has(payload.grant)) return 'revoked'
    if (payload.endsAt !== null && payload.endsAt < Date.now()) return 'expired'
    return payload
  }

  revoke(payload: TokenPayload): void {
    this.#revoked.add(payload.grant)
    for (const grant of this.#revoked) {
      if (this.#revoked.size <= maxRevoked) break
      this.#revoked.delete(grant)
    }
  }

  #sign(body: string): string {
    return createHmac('sha256', this.#secret).update(body).digest('base64url')
  }
}
