import { createHash, timingSafeEqual } from 'node:crypto'

/** The header of Basic authentication (RFC 7617). */
export const basicAuth = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

/** Undefined if the header has another form. */
export function credentialsIn(
  authorization: string | undefined,
): { user: string; password: string } | undefined {
  const [, encoded] = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization ?? '') ?? []
  const text = Buffer.from(encoded ?? '', 'base64').toString()
  const colon = text.indexOf(':')
  if (colon === -1) return undefined
  return { user: text.slice(0, colon), password: text.slice(colon + 1) }
}

/** Compares two secrets in a time that does not say where they differ. */
export function isSameSecret(given: string, expected: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}
