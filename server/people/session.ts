import { createHash, randomBytes } from 'node:crypto'
import { and, eq, gt, lt, notExists, or } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { Context } from 'hono'
import { generateCookie, getCookie } from 'hono/cookie'
import type { Database } from '../database/open.ts'
import { authorizations, connections, rules, sessions, users } from '../database/schema.ts'
import type { Log } from '../log.ts'

const dayMs = 24 * 60 * 60 * 1000
const lifetimeMs = 180 * dayMs

interface Session {
  tokenHash: string
  userId: string
}

export interface Sessions {
  /** The browser's session, or undefined when it has none that is valid. Never makes one. */
  find(c: Context): Promise<Session | undefined>
  /** The browser's session; makes a user and a session, and sets the cookie, when it has none. */
  findOrCreate(c: Context): Promise<Session>
  /**
   * Makes the session that of the user whom `userOf` gives, who is returned, and replaces its token:
   * whoever planted or saw the former one has nothing of this user (session fixation).
   */
  renew(c: Context, session: Session, userOf: (tx: Transaction) => Promise<string>): Promise<string>
}

export type Transaction = Pick<Database, 'select' | 'insert' | 'update' | 'delete' | 'execute'>

/**
 * A session is made only by what must store something (beginning an authorization, saving rules).
 * Were it made by every first call, the parallel first calls of a new browser would make several,
 * of which the browser keeps one.
 */
export function createSessions(
  database: Database,
  { secure, now }: { secure: boolean; now: () => Date },
): Sessions {
  // `__Host-` keeps other hosts of the same domain from planting a session (RFC 6265bis §4.1.3).
  const name = secure ? '__Host-dealbell' : 'dealbell'

  function sendCookie(c: Context, token: string) {
    const cookie = generateCookie(name, token, {
      httpOnly: true,
      sameSite: 'Strict',
      secure,
      path: '/',
      maxAge: lifetimeMs / 1000,
    })
    // Replaces the one that this answer may have already: an answer sets a cookie once.
    c.header('Set-Cookie', cookie)
  }

  /** @returns the token, of which the database has only the hash. */
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

    // Whoever keeps coming keeps the session; one write a quarter of a year is enough for that.
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
      const { token, userId } = await database.transaction(async (tx) => {
        const userId = await userOf(tx)
        const token = await insertSession(tx, userId)
        // The other provider's consent page may be open in another tab.
        await tx
          .update(authorizations)
          .set({ sessionHash: sha256(token) })
          .where(eq(authorizations.sessionHash, session.tokenHash))
        await tx.delete(sessions).where(eq(sessions.tokenHash, session.tokenHash))
        return { token, userId }
      })
      sendCookie(c, token)
      return userId
    },
  }
}

/** A user of whom nothing is known yet. @returns the id. */
export async function insertUser(tx: Transaction): Promise<string> {
  const [user] = await tx.insert(users).values({}).returning({ id: users.id })
  if (user === undefined) throw new Error('The insert of a user returned no row.')
  return user.id
}

/**
 * Forgets sessions that have ended, those that were there for a day and hold nothing, and users of whom
 * nothing is left. Any caller without a cookie makes a session, and most of those never come back.
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

/** Forgets every day, also where a server runs for months. @returns what ends that. */
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

/** What the database keeps of a random value that only its owner shall know. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
