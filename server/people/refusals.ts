// A provider may refuse a connection by mistake, or for a minute only. So each refusal that could break a connection
// passes `recordRefusal`, and the provider is asked again some seconds later. A broken connection is asked, too: daily,
// and when its user looks at it (checks.ts). If the provider accepts it, it works again.

import { and, eq, isNotNull, isNull, lt, not, or, type SQL, sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import type { ProviderId } from '../providers/registry.ts'
import type { Connection } from './connections.ts'

/** When a connection is asked again after its first refusal, in ms. */
export const askAgainMs = 5_000
/** A refusal so long after the first one counts as a first one. */
const forgetAfterMs = 10 * 60_000

/** How often each connection is checked, in hours. */
export const checkEvery = 24
/** In hours. A check that failed for a time, or whose process died, is made again after it. */
export const againAfter = 1
export const inHours = (hours: number) => sql`now() + make_interval(hours => ${hours})`

const seconds = (ms: number) => sql`make_interval(secs => ${ms / 1000})`

/** The user may have connected again in the meantime. What was refused or accepted says nothing of that. */
export const isSame = ({ id, connectedAt }: Connection) =>
  and(eq(connections.id, id), eq(connections.connectedAt, connectedAt))

/**
 * Records that a provider refuses a connection. The second refusal breaks it, at least `afterMs` after the first one. One
 * after which the provider wants no further call breaks it at once (`isFinal`).
 * The rules stay. The user can connect again. @returns whether it is broken. If not, ask again after `afterMs`.
 */
export async function recordRefusal(
  database: Database,
  connection: Connection,
  reason: string,
  { afterMs, isFinal }: { afterMs: number; isFinal: boolean },
): Promise<boolean> {
  const { askAgainAt, brokenSince, checkAt } = connections
  const isBroken = sql`(${isFinal} or ${brokenSince} is not null
    or ${askAgainAt} between now() - ${seconds(forgetAfterMs)} and now())`
  // A clock that was ahead may have stored a time that is far away.
  const soon = sql`now() + ${seconds(afterMs)}`
  const [refused] = await database
    .update(connections)
    .set({
      brokenReason: sql`case when ${isBroken} then ${reason} end`,
      brokenSince: sql`case when ${isBroken} then coalesce(${brokenSince}, now()) end`,
      askAgainAt: sql`case when ${isBroken} then null
        when ${askAgainAt} > now() then least(${askAgainAt}, ${soon}) else ${soon} end`,
      checkAt: sql`case when ${isBroken} then ${inHours(checkEvery)} else ${checkAt} end`,
    })
    .where(isSame(connection))
    .returning({ brokenSince })
  return refused !== undefined && refused.brokenSince !== null
}

export const accepted = { brokenReason: null, brokenSince: null, askAgainAt: null }

/** Records that the providers accept these connections, if one of them was refused. */
export async function recordAcceptance(
  database: Database,
  used: readonly Connection[],
): Promise<void> {
  const refused = used.filter(({ askAgainAt }) => askAgainAt !== null)
  if (refused.length === 0) return
  await database
    .update(connections)
    .set(accepted)
    .where(or(...refused.map(isSame)))
}

/** Whether no message can use a connection. */
export const isClosed = ({ brokenSince, askAgainAt }: Connection) =>
  brokenSince !== null && askAgainAt === null

/** Has connections checked within seconds (checks.ts). A check that is under way counts. */
export async function checkSoon(database: Database, which: SQL | undefined): Promise<void> {
  const { checkAt, checkAsked } = connections
  await database
    .update(connections)
    // Whoever asks again does not go to the end of the queue.
    .set({ checkAt: sql`least(${checkAt}, now())`, checkAsked: true })
    .where(and(which, or(not(checkAsked), lt(checkAt, sql`now()`))))
}

/** A user looks at a broken connection, perhaps because it works again. It is checked, but not all the time. */
export async function checkBroken(
  database: Database,
  { userId, provider }: { userId: string; provider: ProviderId },
): Promise<void> {
  const { checkAt, brokenSince, askAgainAt } = connections
  const isBroken = and(
    eq(connections.userId, userId),
    eq(connections.provider, provider),
    isNotNull(brokenSince),
    isNull(askAgainAt),
    lt(checkAt, sql`${inHours(checkEvery)} - interval '30 seconds'`),
  )
  await checkSoon(database, isBroken)
}
