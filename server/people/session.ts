import { hash, randomBytes } from 'node:crypto'
import { and, eq, getTableColumns, gt, inArray, ne } from 'drizzle-orm'
import type { Context } from 'hono'
import { personHeader } from '../../contract/endpoints.ts'
import type { Database, Transaction } from '../database/open.ts'
import { sessions, usedTokens, users } from '../database/schema.ts'
import { type CookieOptions, createCookies, sha256 } from './cookies.ts'

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
  person: string
}

export interface Browser {
  tokenHash: string
  /** Undefined until the browser has completed its first authorization. */
  session: Session | undefined
}

/** What a completed authorization tells the browser. */
export interface SignedIn {
  /** The new token; undefined if the browser keeps its token. */
  token?: string | undefined
  person: string
}

export type Sessions = ReturnType<typeof createSessions>

export function createSessions(
  database: Database,
  { now, ...options }: CookieOptions & { now: () => Date },
) {
  const cookies = createCookies(options)

  /**
   * Returns the browser's session; undefined if the browser has no valid session. Adds the header `Dealbell-Person` to
   * the answer.
   */
  async function find(c: Context): Promise<Session | undefined> {
    const session = await validSession(c)
    c.header(personHeader, session?.person ?? nobody)
    return session
  }

  async function validSession(c: Context): Promise<Session | undefined> {
    const signed = cookies.of(c).filter(({ token }) => !token.startsWith(unsigned))
    if (signed.length === 0) return undefined
    const at = now()
    const rows = await database
      .select({ ...getTableColumns(sessions), crmUserId: users.crmUserId })
      .from(sessions)
      .innerJoin(users, eq(users.id, sessions.userId))
      .where(and(inArray(sessions.tokenHash, hashesOf(signed)), isLive(at)))
    const [found] = signed.flatMap(({ token, tokenHash }) =>
      rows.filter((row) => row.tokenHash === tokenHash).map((row) => ({ token, row })),
    )
    if (found === undefined) return undefined
    const { token, row } = found
    const { tokenHash } = row

    // A session that is used goes on. Extending it in its second half keeps writes rare.
    const leftMs = row.expiresAt.getTime() - at.getTime()
    const end = new Date(
      Math.min(at.getTime() + lifetimeMs, row.createdAt.getTime() + longestLifetimeMs),
    )
    if (leftMs < lifetimeMs / 2 && end > row.expiresAt) {
      const [extended] = await database
        .update(sessions)
        .set({ expiresAt: end })
        // An authorization or a sign-out may have ended it meanwhile.
        .where(eq(sessions.tokenHash, tokenHash))
        .returning({ userId: sessions.userId })
      if (extended !== undefined) cookies.send(c, token, end.getTime() - at.getTime())
    }
    return { tokenHash, userId: row.userId, person: personOf(row) }
  }

  function tell(c: Context, { token, person }: SignedIn): void {
    if (token !== undefined) cookies.send(c, token, lifetimeMs)
    c.header(personHeader, person)
  }

  return {
    find,
    /** The hashes of all tokens that came with the request, also of those that mean nothing here. */
    tokenHashes: (c: Context) => hashesOf(cookies.of(c)),
    /**
     * Returns the browser that sent the request if it may complete what it began with this token. In a session, that is
     * only what began in it: others may have planted any other cookie.
     */
    async browser(c: Context, tokenHash: string): Promise<Browser | undefined> {
      const session = await find(c)
      if (session !== undefined) {
        return session.tokenHash === tokenHash ? { tokenHash, session } : undefined
      }
      const cookie = cookies.of(c).find((each) => each.tokenHash === tokenHash)
      return cookie?.token.startsWith(unsigned) ? { tokenHash, session } : undefined
    },
    /**
     * Returns the hash of the token with which the browser begins an authorization. Gives a browser that is not signed in
     * a cookie, and stores nothing. `keepsCookies` says that the browser had one already.
     */
    async beginIn(c: Context) {
      const session = await find(c)
      if (session !== undefined) return { tokenHash: session.tokenHash, keepsCookies: true }
      const sent = cookies.of(c)
      const own = sent.find(({ isOwn, token }) => isOwn && token.startsWith(unsigned))
      // A used token: the browser never got the answer that signed it in.
      const mayGoOn =
        own !== undefined &&
        (await database.$count(usedTokens, eq(usedTokens.hash, own.tokenHash))) === 0
      const token = mayGoOn ? own.token : unsigned + randomToken()
      cookies.sendBeside(c, token, authorizationLifetimeMs)
      return { tokenHash: sha256(token), keepsCookies: sent.length > 0 }
    },
    /**
     * Signs the browser in as the user whose id `userOf` returns, in one transaction. If the browser was not this
     * person's before, its token is replaced, and all other authorizations that began with the old one end. An attacker
     * who planted or saw the old token cannot use it as this person (session fixation). Otherwise the token stays, so a
     * browser that never gets the answer stays signed in.
     * @param record stores what the browser is told, in the same transaction.
     * @throws AuthorizationEnded if the session has ended, or the browser has become a person's meanwhile.
     */
    async signIn(
      c: Context,
      { tokenHash, session }: Browser,
      userOf: (tx: Transaction) => Promise<string>,
      record: (tx: Transaction, signedIn: SignedIn) => Promise<unknown>,
    ): Promise<void> {
      const own = eq(sessions.tokenHash, tokenHash)
      const token = randomToken()
      const signedIn = await database.transaction(async (tx) => {
        const isUnused = session !== undefined || (await markUsed(tx, tokenHash, now()))
        const isSignedIn =
          session === undefined ||
          (await tx.select().from(sessions).where(own).for('update')).length > 0
        if (!isUnused || !isSignedIn) throw new AuthorizationEnded()
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
        const signedIn = { token: isReplaced ? token : undefined, person }
        await record(tx, signedIn)
        return signedIn
      })
      tell(c, signedIn)
    },
    /** Tells the browser again that it is signed in. @returns false if that session has ended since. */
    async signInAgain(c: Context, begunWith: string, signedIn: SignedIn) {
      const tokenHash = signedIn.token === undefined ? begunWith : sha256(signedIn.token)
      const own = and(eq(sessions.tokenHash, tokenHash), isLive(now()))
      const isSignedIn = (await database.$count(sessions, own)) > 0
      if (isSignedIn) tell(c, signedIn)
      return isSignedIn
    },
    /** Ends the browser's session, if it has one, and removes the cookie. */
    async end(c: Context) {
      const session = await find(c)
      if (session !== undefined) {
        const sent = hashesOf(cookies.of(c))
        await database.delete(sessions).where(inArray(sessions.tokenHash, sent))
      }
      cookies.remove(c, session?.tokenHash)
      c.header(personHeader, nobody)
    },
    /** Ends all other sessions of the browser's user. */
    async endOthers(c: Context) {
      const session = await find(c)
      if (session === undefined) return
      const isOther = ne(sessions.tokenHash, session.tokenHash)
      await database.delete(sessions).where(and(eq(sessions.userId, session.userId), isOther))
    },
  }
}

const hashesOf = (cookies: readonly { tokenHash: string }[]) =>
  cookies.map(({ tokenHash }) => tokenHash)

const isLive = (at: Date) =>
  and(gt(sessions.expiresAt, at), gt(sessions.createdAt, later(at, -longestLifetimeMs)))

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

/** Returns the name of the session's person; undefined if the CRM has not told who it is. */
export const personIn = (session: Session | undefined) =>
  session?.person.startsWith(nobody) ? undefined : session?.person

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
