import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** The random part alone cannot be guessed. */
const randomBytesLength = 24
const tagLength = 8

/**
 * The tokens in session cookies. A token ends with a tag (HMAC-SHA-256) that only this server can make.
 * So the server knows its own tokens without asking the database, and an invented cookie does not pass
 * for a session of its own when requests are counted. Whether a session is valid, only the database says.
 */
export interface SessionTokens {
  issue(): string
  isIssued(token: string): boolean
}

/** @param encryptionKeys the newest first. Tokens of older keys stay issued. */
export function createSessionTokens(encryptionKeys: readonly Buffer[]): SessionTokens {
  const [newest, ...older] = encryptionKeys.map((key) =>
    createHmac('sha256', key).update('dealbell session token').digest(),
  )
  if (newest === undefined) throw new Error('There is no encryption key.')
  const tag = (key: Buffer, random: Buffer) =>
    createHmac('sha256', key).update(random).digest().subarray(0, tagLength)
  return {
    issue() {
      const random = randomBytes(randomBytesLength)
      return Buffer.concat([random, tag(newest, random)]).toString('base64url')
    },
    isIssued(token) {
      const bytes = Buffer.from(token, 'base64url')
      if (bytes.length !== randomBytesLength + tagLength) return false
      // Decoding ignores foreign characters, so many texts would pass for one token.
      if (bytes.toString('base64url') !== token) return false
      const random = bytes.subarray(0, randomBytesLength)
      const given = bytes.subarray(randomBytesLength)
      return [newest, ...older].some((key) => timingSafeEqual(given, tag(key, random)))
    },
  }
}
