import { hash } from 'node:crypto'
import type { Context } from 'hono'
import { generateCookie } from 'hono/cookie'
import { keyId } from './vault.ts'

/** How many cookies of a request are tried. Others at this host may have set some of the same name. */
const maxCookies = 20

export interface CookieOptions {
  appUrl: string
  /** The oldest one, which stays while keys are rotated. */
  encryptionKey: Buffer
}

export function createCookies({ appUrl, encryptionKey }: CookieOptions) {
  const secure = appUrl.startsWith('https:')
  // `__Host-` stops other hosts of the same domain from planting a session (RFC 6265bis §4.1.3).
  const anyName = secure ? '__Host-dealbell' : 'dealbell'
  // Browsers keep cookies by host, not by port, so each installation has a name of its own.
  const ownName = `${anyName}-${sha256(`${appUrl} ${keyId(encryptionKey)}`).slice(0, 8)}`
  const ranks: ((name: string) => boolean)[] = [
    (name) => name === ownName,
    (name) => name.startsWith(`${ownName}-`),
    (name) => name.startsWith(`${anyName}-`),
  ]

  function cookieOf(name: string, token: string, ageMs: number): string {
    return generateCookie(name, token, {
      httpOnly: true,
      sameSite: 'Strict',
      secure,
      path: '/',
      maxAge: Math.floor(ageMs / 1000),
    })
  }

  /**
   * The cookies of a request that may be ours. That of the session comes first, however many a page had the browser
   * collect. A foreign name may be that of a key that was removed since, or belong to another Dealbell at this host.
   */
  function of(c: Context) {
    const sent = (c.req.header('Cookie') ?? '').split(';').map((pair) => {
      const [name = '', token = ''] = pair.trim().split('=')
      return { name, token, rank: ranks.findIndex((is) => is(name)) }
    })
    return sent
      .filter(({ rank }) => rank !== -1)
      .sort((a, b) => a.rank - b.rank)
      .slice(0, maxCookies)
      .map(({ name, token, rank }) => ({
        name,
        token,
        isOwn: rank < 2,
        tokenHash: sha256(token),
      }))
  }

  return {
    of,
    /** Replaces a cookie that this answer may already set, because an answer must not set it twice. */
    send(c: Context, token: string, ageMs: number) {
      c.header('Set-Cookie', cookieOf(ownName, token, ageMs))
    },
    /** The same under a name of its own, so that two answers at once do not replace each other's cookie. */
    sendBeside(c: Context, token: string, ageMs: number) {
      c.header('Set-Cookie', cookieOf(`${ownName}-${sha256(token).slice(0, 8)}`, token, ageMs))
    },
    /** Removes our cookies, and those that had this token. */
    remove(c: Context, tokenHash: string | undefined) {
      c.header('Set-Cookie', cookieOf(ownName, '', 0))
      for (const { name, isOwn, tokenHash: sent } of of(c)) {
        if (name === ownName || !(isOwn || sent === tokenHash)) continue
        c.header('Set-Cookie', cookieOf(name, '', 0), { append: true })
      }
    },
  }
}

/** What the database stores in place of a random secret. */
export function sha256(text: string): string {
  return hash('sha256', text, 'hex')
}
