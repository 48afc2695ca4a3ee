import { sql } from 'drizzle-orm'
import { deleteInBatches, inBatches } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import {
  channels,
  connections,
  crmAccounts,
  crmBudgets,
  dealEvents,
  deliveries,
  recentCalls,
} from '../database/schema.ts'

/** A CRM repeats an event for a day at most. After 30 days, even a dead delivery is only history. */
const keepDays = 30
const old = sql`now() - make_interval(days => ${keepDays})`
/** Few events at a time, because each has a delivery for every user of its account. */
const eventsAtOnce = 100

/**
 * Deletes old events with their deliveries, channels in which nothing happens any more, accounts that nobody
 * has connected any more, and old counts of calls and tokens. It works in batches. @returns how many rows were deleted.
 */
export async function deleteOld(
  database: Database,
  signal?: AbortSignal,
): Promise<{ events: number; channels: number; accounts: number }> {
  let events = 0
  await inBatches(async () => {
    const page = await rowsOf<{ id: number }>(
      database,
      sql`select ${dealEvents.id} from ${dealEvents}
          where ${dealEvents.receivedAt} < ${old}
            and not exists (
              select from ${deliveries}
              where ${deliveries.eventId} = ${dealEvents.id} and ${deliveries.state} = 'pending'
            )
          order by ${dealEvents.receivedAt} limit ${eventsAtOnce}`,
    )
    if (page.length === 0) return 0
    const ids = sql`${sql.param(page.map(({ id }) => id))}::bigint[]`
    // The operator may make a dead delivery pending meanwhile. It stays, and so does its event.
    await deleteInBatches(
      database,
      deliveries,
      sql`${deliveries.eventId} = any(${ids}) and ${deliveries.state} <> 'pending'`,
      signal,
    )
    const gone = await rowsOf(
      database,
      sql`delete from ${dealEvents}
          where ${dealEvents.id} = any(${ids})
            and not exists (
              select from ${deliveries} where ${deliveries.eventId} = ${dealEvents.id}
            )
          returning 1`,
    )
    events += gone.length
    // Two processes may delete the same page. The one that found nothing left ends.
    return gone.length
  }, signal)

  await deleteInBatches(
    database,
    recentCalls,
    sql`made[cardinality(made)] < now() - interval '1 day'`,
    signal,
  )
  // What was spent today counts even if somebody connects the account again today.
  await deleteInBatches(
    database,
    crmBudgets,
    sql`${crmBudgets.day} < (now() at time zone 'utc')::date
        and not exists (
          select from ${connections}
          where ${connections.provider} = ${crmBudgets.crm}
            and ${connections.accountId} = ${crmBudgets.accountId}
        )`,
    signal,
  )
  return {
    events,
    // A channel that is due is about to be worked on, or a webhook has just added a delivery to it.
    channels: await deleteInBatches(
      database,
      channels,
      sql`${channels.nextAt} < ${old}
          and ${channels.leasedUntil} is null
          and ${channels.dueAt} is null
          and not exists (
            select from ${deliveries}
            where ${deliveries.channel} = ${channels.id} and ${deliveries.state} = 'pending'
          )`,
      signal,
    ),
    accounts: await deleteInBatches(
      database,
      crmAccounts,
      sql`paused_at is null and not exists (
            select from ${connections}
            where ${connections.provider} = ${crmAccounts.crm}
              and ${connections.accountId} = ${crmAccounts.accountId}
          )`,
      signal,
    ),
  }
}
