// Some CRMs send events only to whoever asks for them, and forget that after failures. So each connection of such a CRM is
// asked about: after it was made, by each check (checks.ts), and within two hours after a start.

import { and, eq, gt, inArray, lt, sql } from 'drizzle-orm'
import { batchRows, inBatches } from '../database/batches.ts'
import type { Database } from '../database/open.ts'
import { connections, crmAccounts } from '../database/schema.ts'
import type { Log } from '../log.ts'
import type { CrmAccess, Providers } from '../providers/provider.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { crmIds, usedOf } from '../providers/registry.ts'
import type { CrmConnection } from './access-token.ts'
import { againAfter, checkEvery, checkSoon, isSame } from './refusals.ts'

/** In a connection's first minutes, no event is missing if nothing has sent it before. */
const newForMs = 10 * 60_000
/** A start has the checks made within this time. It ends before a check that has just begun (refusals.ts, checkSoon). */
const spreadMinutes = 50

/** Creates the function that makes sure that the CRM sends a connection's events to this server. */
export function createSubscribe({
  database,
  providers,
  log,
}: {
  database: Database
  providers: Providers
  log: Log
}) {
  /**
   * @param isNew whether the connection has just been made.
   * @returns whether events may be late, so that the connection should be checked again soon.
   * @throws ProviderError if the access token does not count. Whoever made it can make another one.
   */
  return async function subscribe(
    connection: CrmConnection,
    access: CrmAccess,
    isNew = connection.connectedAt.getTime() > Date.now() - newForMs,
  ): Promise<boolean> {
    const { id, provider, accountId, lateSince } = connection
    const crm = providers[provider]
    if (crm.subscribe === undefined) return false
    const late = (since: Date | null | ReturnType<typeof sql>) =>
      database.update(connections).set({ lateSince: since }).where(isSame(connection))
    try {
      // Without it, each of the account's events costs a search. So it does not wait until the account has calls to spare.
      const isMade = await crm.subscribe({ ...access, urgency: 'fresh' })
      if (isMade) log('subscribed', { connection: id, provider })
      if (!isMade || (isNew && lateSince === null)) {
        if (lateSince !== null) await late(null)
        return false
      }
      await late(sql`now()`)
      // A search leaves the last two minutes to webhooks (relay/search/). One that is under way has its lease here.
      await database
        .update(crmAccounts)
        .set({ searchAt: sql`least(${crmAccounts.searchAt}, now() + interval '3 minutes')` })
        .where(and(eq(crmAccounts.crm, provider), eq(crmAccounts.accountId, accountId)))
      return true
    } catch (error) {
      if (!(error instanceof ProviderError) || error.kind === 'unauthorized') throw error
      log.warn('subscription failed', { connection: id, provider, ...error.fields })
      await late(sql`coalesce(${connections.lateSince}, now())`)
      return true
    }
  }
}

/**
 * Has the connections checked within an hour whose CRM may send events to another address, or to none any more: API_URL
 * may have changed, and an absence may have ended what the CRM sends. Each check costs the account some calls, so they do
 * not come at once, and those checked within the last hour wait, however often a server starts.
 */
export async function checkSubscriptions(
  database: Database,
  providers: Providers,
  signal: AbortSignal,
): Promise<void> {
  const crms = usedOf(providers, crmIds).filter((id) => providers[id].subscribe !== undefined)
  if (crms.length === 0) return
  const { id, provider, checkedAt } = connections
  // A stand-in forgets its webhooks when the server stops, and its calls cost nobody anything.
  const standIns = crms.filter((id) => providers[id].standIn)
  if (standIns.length > 0) await checkSoon(database, inArray(provider, standIns))
  const hoursAgo = (hours: number) => sql`now() - make_interval(hours => ${hours})`
  const dueSoon = sql`${hoursAgo(checkEvery)} + random() * make_interval(mins => ${spreadMinutes})`
  // The others are due within an hour, or are under way.
  const waiting = and(
    gt(checkedAt, hoursAgo(checkEvery - againAfter)),
    lt(checkedAt, hoursAgo(againAfter)),
  )
  await inBatches(async () => {
    const some = database
      .select({ id })
      .from(connections)
      .where(and(inArray(provider, crms), waiting))
      .limit(batchRows)
      .for('update', { skipLocked: true })
    const changed = await database
      .update(connections)
      .set({ checkedAt: dueSoon })
      .where(inArray(id, some))
      .returning({ id })
    return changed.length
  }, signal)
}
