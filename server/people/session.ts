import { createHash, randomBytes } from 'node:crypto'
import { and, eq, gt, lt, notExists, or } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Context } from 'hono'
import { generateCookie, getCookie } from 'hono/cookie'
import type { Database, Transaction } from '../database/open.ts'
import { authorizations, connections, rules, sessions, users } from '../database/schema.ts'
import type { Log } from '../log.ts'

const dayMs = 24 * 60 * 60 * 1000
const lifetimeMs = 180 * dayMs

export interface Session {
  tokenHash: string
  userId: string
}

export interface Sessions {
  /** Returns the browser's session; undefined if it has no valid one. Never creates one. */
  find(c: Context): Promise<Session | undefined>
  /**
   * Returns the browser's session. If there is none, creates user and session and sets the cookie.
   */
  findOrCreate(c: Context): Promise<Session>
  /**
   * Gives the session to the user whose id `userOf` returns, and replaces its token, in one
   * transaction. An attacker who planted or saw the old token cannot act as this user (session
   * fixation).
   */
  renew(c: Context, session: Session, userOf: (tx: Transaction) => Promise<string>): Promise<void>
}

/**
 * Creates the sessions of a backend. Only two calls create a session, because they must store data:
 * the start of an authorization and a save of rules. A new browser makes several calls at the same
 * time. If each of them created a session, the browser would keep only one.
 */
export function createSessions(
  database: Database,
  { secure, now }: { secure: boolean; now: () => Date },
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
    // Replace a cookie that this answer may already set, because an answer must not set it twice.
    c.header('Set-Cookie', cookie)
  }

  /** @returns the token. The database stores only its hash. */
  async function insertSession(tx: Transaction, userId: string): Promise<string> {
    const token = randomBytes(32).toString('base64url')
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

    // A session does not end while it is in use. Extend it only in its second half, to write
    // rarely.
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
    async findOrCreate(c) {
      const found = await find(c)
      if (found !== undefined) return found
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
        // The other provider's consent page may be open in another tab. Its authorization must
        // work.
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

/** Inserts a user without an identity. @returns the user's id. */
export async function insertUser(tx: Transaction): Promise<string> {
  const [user] = await tx.insert(users).values({}).returning({ id: users.id })
  if (user === undefined) throw new Error('The insert of a user returned no row.')
  return user.id
}

/**
 * Deletes three things: sessions that have ended, unused sessions that are older than a day, and
 * users without sessions, connections and rules. Anyone can create sessions, and most are never
 * used again.
 */
export async function forgetEndedSessions(database: Database, now: Date): Promise<void> {
  const ofUser = (table: typeof connections | typeof rules, userId: PgColumn) =>
    database.select().from(table).where(eq(table.userId, userId))
  const begun = database
    .select()
    .from(authorizations)
    .where(
      and(eq(authorizations.sessionHash, sessions.tokenHash), gt(authorizations.expiresAt, now)),
    )
  await database
    .delete(sessions)
    .where(
      or(
        lt(sessions.expiresAt, now),
        and(
          lt(sessions.createdAt, new Date(now.getTime() - dayMs)),
          notExists(ofUser(connections, sessions.userId)),
          notExists(ofUser(rules, sessions.userId)),
          notExists(begun),
        ),
      ),
    )
  await database
    .delete(users)
    .where(
      and(
        notExists(database.select().from(sessions).where(eq(sessions.userId, users.id))),
        notExists(ofUser(connections, users.id)),
        notExists(ofUser(rules, users.id)),
      ),
    )
}

/** Calls `forgetEndedSessions` every day, because a server may run for months. */
export function forgetDaily(
  database: Database,
  { now, log }: { now: () => Date; log: Log },
): { stop(): Promise<void> } {
  let running: Promise<void> | undefined
  const timer = setInterval(() => {
    running = forgetEndedSessions(database, now()).catch((error: unknown) =>
      log('forgetting sessions failed', { error: error instanceof Error ? error.name : 'unknown' }),
    )
  }, dayMs).unref()
  return {
    async stop() {
      clearInterval(timer)
      await running
    },
  }
}

/** What the database stores in place of a random secret. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
