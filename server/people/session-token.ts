import {
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import type { Context } from 'hono'
import { generateCookie, getCookie } from 'hono/cookie'

/** The random part alone cannot be guessed. */
const randomBytesLength = 24
const tagLength = 8

/** Everybody can get the token of a new session. The others were issued when somebody connected a service. */
export type TokenKind = 'new' | 'connected'

/**
 * Before there were two kinds, all tokens had the tag of those that have connected a service: most people were signed
 * in for longer than since the last update.
 */
const tagOf = {
  new: 'dealbell session token of a new browser',
  connected: 'dealbell session token',
} as const satisfies Record<TokenKind, string>

/**
 * The tokens in session cookies. A token ends with a tag (HMAC-SHA-256) that only this server can make.
 * So the server knows its own tokens and their kind without asking the database, and an invented cookie
 * does not pass for a session of its own when requests are counted. Whether a session is valid, only the
 * database says.
 */
export interface SessionTokens {
  issue(kind: TokenKind): string
  /** Undefined: this server has not issued the token. */
  kindOf(token: string): TokenKind | undefined
}

/** @param encryptionKeys the newest first. Tokens of older keys stay issued. */
export function createSessionTokens(encryptionKeys: readonly Buffer[]): SessionTokens {
  // Each call checks a token, and a tag with the bytes of a key takes Node five times as long.
  const keyOf = (key: Buffer, kind: TokenKind) =>
    createSecretKey(createHmac('sha256', key).update(tagOf[kind]).digest())
  const keys = encryptionKeys.map((key) => ({
    new: keyOf(key, 'new'),
    connected: keyOf(key, 'connected'),
  }))
  const [newest] = keys
  if (newest === undefined) throw new Error('There is no encryption key.')
  const tag = (key: KeyObject, random: Buffer) =>
    createHmac('sha256', key).update(random).digest().subarray(0, tagLength)
  return {
    issue(kind) {
      const random = randomBytes(randomBytesLength)
      return Buffer.concat([random, tag(newest[kind], random)]).toString('base64url')
    },
    kindOf(token) {
      const bytes = Buffer.from(token, 'base64url')
      if (bytes.length !== randomBytesLength + tagLength) return undefined
      // Decoding ignores foreign characters, so many texts would pass for one token.
      if (bytes.toString('base64url') !== token) return undefined
      const random = bytes.subarray(0, randomBytesLength)
      const given = bytes.subarray(randomBytesLength)
      const isOf = (kind: TokenKind) =>
        keys.some((key) => timingSafeEqual(given, tag(key[kind], random)))
      return (['new', 'connected'] as const).find(isOf)
    },
  }
}

/** The cookie that holds the token of a browser. @param secure True if the dashboard is on https. */
export function createSessionCookie({ secure }: { secure: boolean }) {
  // `__Host-` stops other hosts of the same domain from planting a session (RFC 6265bis §4.1.3).
  const name = secure ? '__Host-dealbell' : 'dealbell'
  return {
    read: (c: Context) => getCookie(c, name),
    send(c: Context, token: string, ageMs: number): void {
      const cookie = generateCookie(name, token, {
        httpOnly: true,
        sameSite: 'Strict',
        secure,
        path: '/',
        maxAge: Math.floor(ageMs / 1000),
      })
      // Replace a cookie that this answer may already set, because an answer must not set it twice.
      c.header('Set-Cookie', cookie)
    },
  }
}
