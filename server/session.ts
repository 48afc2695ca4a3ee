import { createHash, randomBytes } from 'node:crypto'
import { and, eq, gt, lt, notExists } from 'drizzle-orm'
import type { Context } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import type { Database } from './database/open.ts'
import { connections, rules, sessions, users } from './database/schema.ts'

const lifetimeMs = 180 * 24 * 60 * 60 * 1000

export interface Session {
  tokenHash: string
  userId: string
}

export interface Sessions {
  /** The browser's session, or undefined when it has none that is valid. Never makes one. */
  find(c: Context): Promise<Session | undefined>
  /** The browser's session; makes a user and a session, and sets the cookie, when it has none. */
  findOrCreate(c: Context): Promise<Session>
}

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
    setCookie(c, name, token, {
      httpOnly: true,
      sameSite: 'Strict',
      secure,
      path: '/',
      maxAge: lifetimeMs / 1000,
    })
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
      const token = randomBytes(32).toString('base64url')
      const tokenHash = sha256(token)
      const userId = await database.transaction(async (tx) => {
        const [user] = await tx.insert(users).values({}).returning({ id: users.id })
        if (user === undefined) throw new Error('The insert of a user returned no row.')
        await tx.insert(sessions).values({
          tokenHash,
          userId: user.id,
          createdAt: now(),
          expiresAt: new Date(now().getTime() + lifetimeMs),
        })
        return user.id
      })
      sendCookie(c, token)
      return { tokenHash, userId }
    },
  }
}

/** Forgets sessions that have ended, and users of whom nothing is left. Run at every start. */
export async function forgetEndedSessions(database: Database, now: Date): Promise<void> {
  await database.delete(sessions).where(lt(sessions.expiresAt, now))
  await database
    .delete(users)
    .where(
      and(
        notExists(database.select().from(sessions).where(eq(sessions.userId, users.id))),
        notExists(database.select().from(connections).where(eq(connections.userId, users.id))),
        notExists(database.select().from(rules).where(eq(rules.userId, users.id))),
      ),
    )
}

/** What the database keeps of a random value that only its owner shall know. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
