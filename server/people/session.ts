import { createHash } from 'node:crypto'
import { and, eq, gt } from 'drizzle-orm'
import type { Context } from 'hono'
import { generateCookie, getCookie } from 'hono/cookie'
import type { Database, Transaction } from '../database/open.ts'
import { authorizations, sessions, users } from '../database/schema.ts'
import type { SessionTokens } from './session-token.ts'

const lifetimeMs = 180 * 24 * 60 * 60 * 1000

export interface Session {
  tokenHash: string
  userId: string
}

export interface Sessions {
  /** The browser's session; undefined when it has no valid one. Never makes one. */
  find(c: Context): Promise<Session | undefined>
  /**
   * The hash of the browser's token if this server issued it. It asks no database, so the session may
   * have ended.
   */
  issuedHash(c: Context): string | undefined
  /**
   * The browser's session. If it has none, makes a user and a session and sets the cookie.
   * @throws ApiError when too many new sessions were made from the same address.
   */
  findOrCreate(c: Context): Promise<Session>
  /**
   * Gives the session to the user whose id `userOf` returns, and replaces its token. An attacker who
   * planted or saw the old token cannot use it as this user (session fixation). One transaction.
   */
  renew(c: Context, session: Session, userOf: (tx: Transaction) => Promise<string>): Promise<void>
}

export interface SessionOptions {
  /** The dashboard is on https. */
  secure: boolean
  now: () => Date
  tokens: SessionTokens
  /** Throws when no session may be made for this request. */
  beforeCreate: (c: Context) => Promise<void>
}

/**
 * Sessions are made only by calls that must store something: beginning an authorization and saving
 * rules. A new browser makes several calls at the same time. If each of them made a session, the
 * browser would keep only one.
 */
export function createSessions(
  database: Database,
  { secure, now, tokens, beforeCreate }: SessionOptions,
): Sessions {
  // `__Host-` stops other hosts of the same domain from planting a session (RFC 6265bis §4.1.3).
  const name = secure ? '__Host-dealbell' : 'dealbell'

  function sendCookie(c: Context, token: string) {
    const cookie = generateCookie(name, token, {
      httpOnly: true,
      sameSite: 'Strict',
      secure,
      path: '/',
      maxAge: lifetimeMs / 1000,
    })
    // Replaces a cookie that this answer may already set: an answer sets a cookie once.
    c.header('Set-Cookie', cookie)
  }

  /** @returns the token. The database stores only its hash. */
  async function insertSession(tx: Transaction, userId: string): Promise<string> {
    const token = tokens.issue()
    await tx.insert(sessions).values({
      tokenHash: sha256(token),
      userId,
      createdAt: now(),
      expiresAt: new Date(now().getTime() + lifetimeMs),
    })
    return token
  }

  async function find(c: Context): Promise<Session | undefined> {
    const token = getCookie(c, name)
    if (token === undefined) return undefined
    const tokenHash = sha256(token)
    const [row] = await database
      .select({ userId: sessions.userId, expiresAt: sessions.expiresAt })
      .from(sessions)
      .where(and(eq(sessions.tokenHash, tokenHash), gt(sessions.expiresAt, now())))
    if (row === undefined) return undefined

    // A session that is used does not end. Extending it in its second half keeps writes rare.
    if (row.expiresAt.getTime() - now().getTime() < lifetimeMs / 2) {
      await database
        .update(sessions)
        .set({ expiresAt: new Date(now().getTime() + lifetimeMs) })
        .where(eq(sessions.tokenHash, tokenHash))
      sendCookie(c, token)
    }
    return { tokenHash, userId: row.userId }
  }

  return {
    find,
    issuedHash(c) {
      const token = getCookie(c, name)
      return token !== undefined && tokens.isIssued(token) ? sha256(token) : undefined
    },
    async findOrCreate(c) {
      const found = await find(c)
      if (found !== undefined) return found
      await beforeCreate(c)
      const { token, userId } = await database.transaction(async (tx) => {
        const userId = await insertUser(tx)
        return { token: await insertSession(tx, userId), userId }
      })
      sendCookie(c, token)
      return { tokenHash: sha256(token), userId }
    },
    async renew(c, session, userOf) {
      const token = await database.transaction(async (tx) => {
        const token = await insertSession(tx, await userOf(tx))
        // The other provider's consent page may be open in another tab.
        await tx
          .update(authorizations)
          .set({ sessionHash: sha256(token) })
          .where(eq(authorizations.sessionHash, session.tokenHash))
        await tx.delete(sessions).where(eq(sessions.tokenHash, session.tokenHash))
        return token
      })
      sendCookie(c, token)
    },
  }
}

/** Inserts a user of whom nothing is known yet. @returns the id. */
export async function insertUser(tx: Transaction): Promise<string> {
  const [user] = await tx.insert(users).values({}).returning({ id: users.id })
  if (user === undefined) throw new Error('The insert of a user returned no row.')
  return user.id
}

/** What the database stores in place of a random secret. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
