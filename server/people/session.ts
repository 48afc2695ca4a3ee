import { hash } from 'node:crypto'
import { and, eq, getTableColumns, gt, isNull, ne, type SQL } from 'drizzle-orm'
import type { Context } from 'hono'
import { personHeader } from '../../contract/endpoints.ts'
import type { Database, Transaction } from '../database/open.ts'
import type { HasRoom } from '../database/room.ts'
import { authorizations, sessions, users } from '../database/schema.ts'
import { ApiError } from '../http/errors.ts'
import type { IssuedSession } from '../http/rate-limit.ts'
import { insertUser } from './identity.ts'
import { nobody, personOf } from './person-name.ts'
import { createSessionCookie, type SessionTokens, type TokenKind } from './session-token.ts'

const dayMs = 24 * 60 * 60 * 1000
/** A session that is not used ends after this time. */
const lifetimeMs = 180 * dayMs
/** A session ends this long after its creation, however often it is used. */
const longestLifetimeMs = 365 * dayMs
/** A replaced token stays valid for this long, or until the browser uses the new one. */
const replacedMs = 5 * 60 * 1000

export interface Session {
  tokenHash: string
  userId: string
  /** The name of the user to the pages of this browser. */
  person: string
  /** Another token has replaced the browser's. This one may only read. */
  isReplaced: boolean
}

export interface Sessions {
  /**
   * Returns the browser's session; undefined if the browser has no valid session. Creates no session. Adds the header
   * `Dealbell-Person` to the answer.
   */
  find(c: Context): Promise<Session | undefined>
  /**
   * What the browser's token tells if this server issued it. It asks no database, so the session may
   * have ended.
   */
  issued(c: Context): IssuedSession | undefined
  /**
   * The browser's session. If it has none, or one whose token was replaced, makes a user and a session and sets the
   * cookie.
   * @throws ApiError when too many new sessions were made from the same address.
   */
  findOrCreate(c: Context): Promise<Session>
  /**
   * Gives the session to the user whose id `userOf` returns, and replaces its token. An attacker who
   * planted or saw the old token cannot use it as this user (session fixation). Also ends all other authorizations
   * that began with the old token. One transaction.
   *
   * If the user stays the same, the old token may read until the browser uses the new one, or for five
   * minutes. So a browser that never gets the answer still shows what is connected.
   * @throws AuthorizationEnded if the session has ended, or another token has replaced its own.
   */
  renew(c: Context, session: Session, userOf: (tx: Transaction) => Promise<string>): Promise<void>
  /**
   * Ends the browser's session, if it has one, and removes the cookie.
   * @throws ApiError (409) if another token has just replaced the browser's.
   */
  end(c: Context): Promise<void>
  /**
   * Ends all other sessions of the browser's user.
   * @throws ApiError (409) if another token has just replaced the browser's.
   */
  endOthers(c: Context): Promise<void>
}

export interface SessionOptions {
  /** The dashboard is on https. */
  secure: boolean
  now: () => Date
  tokens: SessionTokens
  /** Throws when no session may be made for this request. */
  beforeCreate: (c: Context) => Promise<void>
  /** False if the database refuses what writes. */
  hasRoom?: HasRoom
}

/**
 * Creates the sessions of a backend. Only the start of an authorization creates one, because it must store
 * data. A new browser makes several calls at the same time. If each of them created a session, the browser
 * would keep only one.
 */
export function createSessions(
  database: Database,
  { secure, now, tokens, beforeCreate, hasRoom = () => true }: SessionOptions,
): Sessions {
  const cookie = createSessionCookie({ secure })

  /** @returns the token. The database stores only its hash. */
  async function insertSession(
    tx: Transaction,
    kind: TokenKind,
    userId: string,
    createdAt: Date,
  ): Promise<string> {
    const token = tokens.issue(kind)
    const expiresAt = later(createdAt, lifetimeMs)
    await tx.insert(sessions).values({ tokenHash: sha256(token), userId, createdAt, expiresAt })
    return token
  }

  async function find(c: Context): Promise<Session | undefined> {
    const session = await validSession(c)
    c.header(personHeader, session?.person ?? nobody)
    return session
  }

  async function validSession(c: Context): Promise<Session | undefined> {
    const token = cookie.read(c)
    if (token === undefined) return undefined
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
    const { userId, createdAt, expiresAt, replacedBy } = row
    const session = { tokenHash, userId, person: personOf(row) }
    if (replacedBy !== null) return { ...session, isReplaced: true }
    // Without room to write, sessions can still be read.
    if (!hasRoom()) return { ...session, isReplaced: false }

    // The browser has the new token, so the one that it replaced ends.
    if (createdAt > later(at, -replacedMs)) {
      await database
        .delete(sessions)
        .where(and(eq(sessions.userId, userId), eq(sessions.replacedBy, tokenHash)))
    }

    // A session that is used goes on. Extending it in its second half keeps writes rare. Not in its last minutes,
    // because a process of a former release replaces a token by shortening its session.
    const leftMs = expiresAt.getTime() - at.getTime()
    const end = earlier(later(at, lifetimeMs), later(createdAt, longestLifetimeMs))
    if (leftMs < lifetimeMs / 2 && leftMs > replacedMs && end > expiresAt) {
      const [extended] = await database
        .update(sessions)
        .set({ expiresAt: end })
        // An authorization may have replaced the token meanwhile.
        .where(and(eq(sessions.tokenHash, tokenHash), isNull(sessions.replacedBy)))
        .returning({ userId: sessions.userId })
      if (extended !== undefined) cookie.send(c, token, end.getTime() - at.getTime())
    }
    return { ...session, isReplaced: false }
  }

  /**
   * Runs `change` for the session of the browser, while no callback can replace or end its token.
   * @throws ApiError (409) if a callback has just replaced or ended it.
   */
  async function changeSession(
    c: Context,
    which: (session: Session) => SQL | undefined,
    change: (tx: Transaction, session: Session) => Promise<void>,
  ): Promise<void> {
    const session = await find(c)
    if (session === undefined) return
    await database.transaction(async (tx) => {
      const locked = await tx
        .select()
        .from(sessions)
        .where(which(session))
        .orderBy(sessions.tokenHash)
        .for('update')
      const own = locked.find(({ tokenHash }) => tokenHash === session.tokenHash)
      if (own === undefined || own.replacedBy !== null) throw replacedToken()
      await change(tx, session)
    })
  }

  return {
    find,
    issued(c) {
      const token = cookie.read(c)
      const kind = token === undefined ? undefined : tokens.kindOf(token)
      if (token === undefined || kind === undefined) return undefined
      return { tokenHash: sha256(token), isNew: kind === 'new' }
    },
    async findOrCreate(c) {
      const found = await find(c)
      if (found !== undefined && !found.isReplaced) return found
      await beforeCreate(c)
      const { token, userId } = await database.transaction(async (tx) => {
        const userId = await insertUser(tx)
        return { token: await insertSession(tx, 'new', userId, now()), userId }
      })
      cookie.send(c, token, lifetimeMs)
      const person = personOf({ userId, crmUserId: null })
      c.header(personHeader, person)
      return { tokenHash: sha256(token), userId, person, isReplaced: false }
    },
    async renew(c, session, userOf) {
      const { token, person } = await database.transaction(async (tx) => {
        const replaced = eq(sessions.tokenHash, session.tokenHash)
        const [own] = await tx.select().from(sessions).where(replaced).for('update')
        if (own === undefined || own.replacedBy !== null) throw new AuthorizationEnded()
        const userId = await userOf(tx)
        const at = now()
        const token = await insertSession(tx, 'connected', userId, at)
        // Whoever saw the old token may have begun them.
        await tx.delete(authorizations).where(eq(authorizations.sessionHash, session.tokenHash))
        if (userId === session.userId) {
          await tx
            .update(sessions)
            .set({ expiresAt: later(at, replacedMs), replacedBy: sha256(token) })
            .where(replaced)
        } else {
          // A browser that never gets the answer authorizes again, and then finds everything.
          await tx.delete(sessions).where(replaced)
        }
        const [user] = await tx.select().from(users).where(eq(users.id, userId))
        return { token, person: personOf({ userId, crmUserId: user?.crmUserId ?? null }) }
      })
      cookie.send(c, token, lifetimeMs)
      c.header(personHeader, person)
    },
    async end(c) {
      const own = ({ tokenHash }: Session) => eq(sessions.tokenHash, tokenHash)
      await changeSession(c, own, async (tx, session) => {
        await tx.delete(sessions).where(own(session))
      })
      cookie.send(c, '', 0)
      c.header(personHeader, nobody)
    },
    async endOthers(c) {
      const ofUser = ({ userId }: Session) => eq(sessions.userId, userId)
      await changeSession(c, ofUser, async (tx, session) => {
        const isOther = ne(sessions.tokenHash, session.tokenHash)
        await tx.delete(sessions).where(and(ofUser(session), isOther))
      })
    },
  }
}

/** What began an authorization has ended since. */
export class AuthorizationEnded extends Error {}

/** The answer to a call that changes something, with a token that another one has replaced. */
export function replacedToken(): ApiError {
  return new ApiError(
    409,
    'replaced_session',
    'This browser has just connected a service. Try again in a moment.',
  )
}

function later(time: Date, ms: number): Date {
  return new Date(time.getTime() + ms)
}

function earlier(a: Date, b: Date): Date {
  return a < b ? a : b
}

/** What the database stores in place of a random secret. */
export function sha256(text: string): string {
  return hash('sha256', text, 'hex')
}
