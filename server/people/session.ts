import { hash, randomBytes } from 'node:crypto'
import { and, eq, getTableColumns, gt, ne } from 'drizzle-orm'
import type { Context } from 'hono'
import { generateCookie, getCookie } from 'hono/cookie'
import { personHeader } from '../../contract/endpoints.ts'
import type { Database, Transaction } from '../database/open.ts'
import { sessions, usedTokens, users } from '../database/schema.ts'

const dayMs = 24 * 60 * 60 * 1000
/** A session that is not used ends after this time. */
const lifetimeMs = 180 * dayMs
/** A session ends this long after its creation, however often it is used. */
const longestLifetimeMs = 365 * dayMs
/** A consent page can be answered for this long. */
export const authorizationLifetimeMs = 10 * 60 * 1000
/** So begins the token of a browser that is not signed in. It only binds an authorization to the browser. */
const unsigned = 'new.'

interface Session {
  tokenHash: string
  userId: string
  /** The name of the user to the pages of this browser. */
  person: string
}

/** A browser that begins or completes an authorization. */
export interface Browser {
  tokenHash: string
  /** Undefined until the browser has completed its first authorization. */
  session: Session | undefined
}

export interface Sessions {
  /**
   * Returns the browser's session; undefined if the browser has no valid session. Adds the header `Dealbell-Person` to
   * the answer.
   */
  find(c: Context): Promise<Session | undefined>
  /** Returns the browser that sent the request; undefined if its cookie is missing or of an ended session. */
  browser(c: Context): Promise<Browser | undefined>
  /** Like `browser`. Gives a browser that is not signed in a cookie, and stores nothing. */
  beginIn(c: Context): Promise<Browser>
  /**
   * Signs the browser in as the user whose id `userOf` returns, in one transaction. If the browser was not this
   * person's before, its token is replaced, and all other authorizations that began with the old one end. An attacker
   * who planted or saw the old token cannot use it as this person (session fixation). Otherwise the token stays, so a
   * browser that never gets the answer stays signed in.
   * @throws AuthorizationEnded if the session has ended, or the browser has become a person's meanwhile.
   */
  signIn(c: Context, browser: Browser, userOf: (tx: Transaction) => Promise<string>): Promise<void>
  /** Ends the browser's session, if it has one, and removes the cookie. */
  end(c: Context): Promise<void>
  /** Ends all other sessions of the browser's user. */
  endOthers(c: Context): Promise<void>
}

export interface SessionOptions {
  /** The dashboard is on https. */
  secure: boolean
  now: () => Date
}

/** Creates the sessions of a backend. Only a completed authorization stores one. */
export function createSessions(database: Database, { secure, now }: SessionOptions): Sessions {
  // `__Host-` stops other hosts of the same domain from planting a session (RFC 6265bis §4.1.3).
  const cookieName = secure ? '__Host-dealbell' : 'dealbell'

  function sendCookie(c: Context, token: string, ageMs: number): void {
    const cookie = generateCookie(cookieName, token, {
      httpOnly: true,
      sameSite: 'Strict',
      secure,
      path: '/',
      maxAge: Math.floor(ageMs / 1000),
    })
    // Replace a cookie that this answer may already set, because an answer must not set it twice.
    c.header('Set-Cookie', cookie)
  }

  async function find(c: Context): Promise<Session | undefined> {
    const session = await validSession(c)
    c.header(personHeader, session?.person ?? nobody)
    return session
  }

  async function validSession(c: Context): Promise<Session | undefined> {
    const token = getCookie(c, cookieName)
    if (token === undefined || token.startsWith(unsigned)) return undefined
    const tokenHash = sha256(token)
    const at = now()
    const [row] = await database
      .select({ ...getTableColumns(sessions), crmUserId: users.crmUserId })
      .from(sessions)
      .innerJoin(users, eq(users.id, sessions.userId))
      .where(
        and(
          eq(sessions.tokenHash, tokenHash),
          gt(sessions.expiresAt, at),
          gt(sessions.createdAt, later(at, -longestLifetimeMs)),
        ),
      )
    if (row === undefined) return undefined

    // A session that is used goes on. Extending it in its second half keeps writes rare.
    const leftMs = row.expiresAt.getTime() - at.getTime()
    const end = earlier(later(at, lifetimeMs), later(row.createdAt, longestLifetimeMs))
    if (leftMs < lifetimeMs / 2 && end > row.expiresAt) {
      const [extended] = await database
        .update(sessions)
        .set({ expiresAt: end })
        // An authorization or a sign-out may have ended it meanwhile.
        .where(eq(sessions.tokenHash, tokenHash))
        .returning({ userId: sessions.userId })
      if (extended !== undefined) sendCookie(c, token, end.getTime() - at.getTime())
    }
    return { tokenHash, userId: row.userId, person: personOf(row) }
  }

  async function browser(c: Context): Promise<Browser | undefined> {
    const session = await find(c)
    if (session !== undefined) return { tokenHash: session.tokenHash, session }
    const token = getCookie(c, cookieName)
    return token?.startsWith(unsigned) ? { tokenHash: sha256(token), session } : undefined
  }

  return {
    find,
    browser,
    async beginIn(c) {
      const known = await browser(c)
      if (known?.session !== undefined) return known
      // A used token: the browser never got the answer that signed it in.
      const mayGoOn =
        known !== undefined &&
        (await database.$count(usedTokens, eq(usedTokens.hash, known.tokenHash))) === 0
      const token = (mayGoOn && getCookie(c, cookieName)) || unsigned + randomToken()
      sendCookie(c, token, authorizationLifetimeMs)
      return { tokenHash: sha256(token), session: undefined }
    },
    async signIn(c, { tokenHash, session }, userOf) {
      const own = eq(sessions.tokenHash, tokenHash)
      const token = randomToken()
      const { isReplaced, person } = await database.transaction(async (tx) => {
        const isValid =
          session === undefined
            ? await markUsed(tx, tokenHash, now())
            : (await tx.select().from(sessions).where(own).for('update')).length > 0
        if (!isValid) throw new AuthorizationEnded()
        const userId = await userOf(tx)
        const [user] = await tx.select().from(users).where(eq(users.id, userId))
        const crmUserId = user?.crmUserId ?? null
        const person = personOf({ userId, crmUserId })
        const isReplaced = crmUserId === null || person !== session?.person
        if (isReplaced) {
          await tx.delete(sessions).where(own)
          const createdAt = now()
          const expiresAt = later(createdAt, lifetimeMs)
          await tx
            .insert(sessions)
            .values({ tokenHash: sha256(token), userId, createdAt, expiresAt })
          await tx.update(users).set({ seenAt: createdAt }).where(eq(users.id, userId))
        }
        return { isReplaced, person }
      })
      if (isReplaced) sendCookie(c, token, lifetimeMs)
      c.header(personHeader, person)
    },
    async end(c) {
      const session = await find(c)
      if (session !== undefined) {
        await database.delete(sessions).where(eq(sessions.tokenHash, session.tokenHash))
      }
      sendCookie(c, '', 0)
      c.header(personHeader, nobody)
    },
    async endOthers(c) {
      const session = await find(c)
      if (session === undefined) return
      const isOther = ne(sessions.tokenHash, session.tokenHash)
      await database.delete(sessions).where(and(eq(sessions.userId, session.userId), isOther))
    },
  }
}

/** What began an authorization has ended since. */
export class AuthorizationEnded extends Error {}

/**
 * Notes that the state of an authorization, or the token that began it, was used.
 * @returns false if it was used before.
 */
export async function markUsed(
  database: Pick<Database, 'insert'>,
  hash: string,
  now: Date,
): Promise<boolean> {
  const expiresAt = later(now, authorizationLifetimeMs)
  const used = database.insert(usedTokens).values({ hash, expiresAt }).onConflictDoNothing()
  return (await used.returning({ hash: usedTokens.hash })).length > 0
}

/** 32 random bytes as text for a cookie or an address. */
export function randomToken(): string {
  return randomBytes(32).toString('base64url')
}

function later(time: Date, ms: number): Date {
  return new Date(time.getTime() + ms)
}

function earlier(a: Date, b: Date): Date {
  return a < b ? a : b
}

/** Names a browser without a session to its pages. */
export const nobody = 'nobody'

/**
 * Names a person to the pages of their browser. The hash does not reveal the user's id. The name says so if the CRM has
 * not told yet who it is.
 */
function personOf({ userId, crmUserId }: { userId: string; crmUserId: string | null }): string {
  const name = hash('sha256', `person ${userId}`, 'hex').slice(0, 16)
  return crmUserId === null ? `${nobody}-${name}` : name
}

/** What the database stores in place of a random secret. */
export function sha256(text: string): string {
  return hash('sha256', text, 'hex')
}
