// Some CRMs send events only to whoever asks for them, and forget that after failures. So the server looks for each
// connection's webhook: after the connection was made, in each check (checks.ts), and within two hours after a start.

import { and, eq, gt, inArray, lt, type SQL, sql } from 'drizzle-orm'
import { batchRows, inBatches } from '../database/batches.ts'
import type { Database } from '../database/open.ts'
import { connections, crmAccounts } from '../database/schema.ts'
import type { Log } from '../log.ts'
import type { CrmAccess, Providers } from '../providers/provider.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { crmIds, usedOf } from '../providers/registry.ts'
import type { CrmConnection } from './access-token.ts'
import { againAfter, checkEvery, checkSoon, inHours, isSame } from './refusals.ts'

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
   * @returns whether events may be late, so that the connection should be checked again soon.
   * @throws ProviderError if the CRM refuses the access token. The caller can refresh it.
   */
  return async function subscribe(connection: CrmConnection, access: CrmAccess): Promise<boolean> {
    const { id, provider, accountId, lateSince } = connection
    const { webhooks } = providers[provider]
    if (webhooks === undefined) return false
    const store = (changes: { webhookId?: string; lateSince: SQL | null }) =>
      database.update(connections).set(changes).where(isSame(connection))
    let isMissing = connection.webhookId === null
    try {
      // Without the webhook, only searches find the user's changes. So it does not wait for calls to spare.
      const fresh = { ...access, urgency: 'fresh' } as const
      const found = await webhooks.find(fresh, connection)
      isMissing = found === undefined
      const webhookId = found ?? (await webhooks.make(fresh))
      if (isMissing) log('subscribed', { connection: id, provider })
      // The first one of a connection comes too late for nothing.
      const isLate = isMissing && (connection.webhookId ?? lateSince) !== null
      await store({ webhookId, lateSince: isLate ? sql`now()` : null })
      if (!isLate) return false
      // A search skips the changes of the last two minutes (relay/search/), so it begins in three. An earlier time
      // stays.
      await database
        .update(crmAccounts)
        .set({ searchAt: sql`least(${crmAccounts.searchAt}, now() + interval '3 minutes')` })
        .where(and(eq(crmAccounts.crm, provider), eq(crmAccounts.accountId, accountId)))
      return true
    } catch (error) {
      if (!(error instanceof ProviderError) || error.kind === 'unauthorized') throw error
      log.warn('subscription failed', { connection: id, provider, ...error.fields })
      // One look that fails says nothing of the webhook. The next one decides, if it comes.
      const isSure = isMissing || lateSince !== null
      await store({
        lateSince: isSure ? sql`least(${connections.lateSince}, now())` : inHours(2 * againAfter),
      })
      return true
    }
  }
}

/**
 * After a start, webhooks may be missing or have an old address: API_URL may have changed, or the CRM has given up. So
 * the connections are checked within an hour. Checks cost calls, so they do not come at once. Those of the last hour
 * wait, so many starts cost no more.
 */
export async function checkSubscriptions(
  database: Database,
  providers: Providers,
  signal: AbortSignal,
): Promise<void> {
  const crms = usedOf(providers, crmIds).filter((id) => providers[id].webhooks !== undefined)
  if (crms.length === 0) return
  const { id, provider, checkAt } = connections
  // A stand-in forgets its webhooks when the server stops, and its calls cost nobody anything.
  const standIns = crms.filter((id) => providers[id].standIn)
  if (standIns.length > 0) await checkSoon(database, inArray(provider, standIns))
  // Not those that are due within an hour, that are under way, or that were made in the last hour.
  const waiting = and(
    gt(checkAt, inHours(againAfter)),
    lt(checkAt, inHours(checkEvery - againAfter)),
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
      .set({ checkAt: sql`now() + random() * interval '1 hour'` })
      .where(inArray(id, some))
      .returning({ id })
    return changed.length
  }, signal)
}
