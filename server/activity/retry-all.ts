import { sql } from 'drizzle-orm'
import type { Activity, Summary } from '../../contract/features/activity.ts'
import type { RetryAllAnswer } from '../../contract/features/retry-all.ts'
import { inBatchesOf } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import { connections, testProperty } from '../database/schema.ts'
import { type Providers, unknownRefusal } from '../providers/provider.ts'
import {
  chatIds,
  crmIds,
  isChatId,
  isCrmId,
  type ProviderId,
  providerIds,
  usedOf,
} from '../providers/registry.ts'
import { type ActivityFilter, hasRule, nameSearch, newestIn } from './find.ts'
import { revive } from './send-again.ts'

interface Dependencies {
  database: Database
  providers: Providers
}

const mostAtOnce = 1_000
/** How many of the newest failed messages it looks at to find them. */
const mostLookedAt = 2_000

export interface Which {
  filter: Omit<ActivityFilter, 'state'>
  /** Only those that failed because a connection was broken. */
  onlyBroken: boolean
}

const all = { q: undefined, rule: undefined, day: undefined }
const none = { ids: [], names: [], reasons: [], hasOlder: false }

/** Whether the stored reason of a delivery may mean that the provider no longer accepted the connection. */
const mayBeOf = (providers: Providers, id: ProviderId, reason: string) =>
  Object.hasOwn(providers[id].brokenReasons, reason) ||
  reason.startsWith(unknownRefusal(id, '')) ||
  (isCrmId(id) && reason === 'refused')

/** The same condition for any provider, about rows. */
const becauseBroken = (providers: Providers) => {
  const codes = providerIds.flatMap((id) => Object.keys(providers[id].brokenReasons))
  const unknown = providerIds.map((id) => unknownRefusal(id, '%'))
  return sql`(reason = any(${sql.param(['refused', ...codes])}::text[])
              or reason like any(${sql.param(unknown)}::text[]))`
}

/**
 * The condition that a failed delivery may be sent again with others. A test message is no news. After a disconnect,
 * nothing is sent any more. The event is read only if the delivery itself tells nothing of a deal.
 */
const isNews = sql`
  reason is distinct from 'disconnected' and (
    coalesce(rule_id, deal_name, to_label) is not null
    or (select property from deal_events where deal_events.id = event_id) <> ${testProperty})`

/** Finds a user's newest failed deliveries, as many as one call may send again. `more`: there may be others. */
async function findFailed(
  { database, providers }: Dependencies,
  userId: string,
  { filter, onlyBroken }: Which,
): Promise<{ ids: string[]; reasons: string[]; more: boolean }> {
  const columns = sql`id, event_id, reason, occurred_at, rule_id, deal_name, to_label`
  const { q } = filter
  const [found] = await rowsOf<{
    ids: string[]
    names: Array<string | null>
    reasons: string[]
    hasOlder: boolean
  }>(
    database,
    sql`with found as (
          select id::text, deal_name, reason
          from ${newestIn(userId, 'dead', filter, { columns, limit: mostLookedAt })} as failed
          where ${hasRule(filter)} and ${isNews}
            and ${onlyBroken ? becauseBroken(providers) : sql`true`}
          order by occurred_at desc, failed.id desc
          limit ${q === undefined ? mostAtOnce + 1 : mostLookedAt}
        )
        select (select coalesce(json_agg(id), '[]') from found) as ids,
               (select coalesce(json_agg(deal_name), '[]') from found where ${q !== undefined}) as names,
               array(select distinct reason from found where reason is not null) as reasons,
               exists (
                 select from ${newestIn(userId, 'dead', filter, {
                   columns: sql`id`,
                   limit: mostLookedAt + 1,
                 })} as failed offset ${mostLookedAt}
               ) as "hasOlder"`,
  )
  const { ids: looked, names, reasons, hasOlder } = found ?? none
  const isFound = nameSearch(filter)
  const ids = looked.filter((_, n) => isFound(names[n]))
  return { ids: ids.slice(0, mostAtOnce), reasons, more: ids.length > mostAtOnce || hasOlder }
}

export async function countRetryable(
  dependencies: Dependencies,
  userId: string,
  filter: Which['filter'],
): Promise<NonNullable<Activity['retryable']>> {
  const { ids, more } = await findFailed(dependencies, userId, { filter, onlyBroken: false })
  return { count: ids.length, more }
}

/** Makes a user's newest failed deliveries pending again. They keep their places in the list. */
export async function sendAllAgain(
  dependencies: Dependencies,
  userId: string,
  which: Which,
): Promise<RetryAllAnswer> {
  // Find them all first. What a batch revives may soon be dead again, and must not be revived for ever.
  const { ids, more } = await findFailed(dependencies, userId, which)
  // The oldest change goes first.
  ids.reverse()
  const queued = await inBatchesOf(ids, (some) => revive(dependencies.database, some))
  return { queued, more }
}

/** Makes the last delivery pending again that failed since a time. @returns whether there is one. */
export async function sendLastAgain(
  database: Database,
  userId: string,
  since: Date,
): Promise<boolean> {
  const last = await rowsOf<{ id: string }>(
    database,
    sql`select id::text as id from deliveries
        where user_id = ${userId} and state = 'dead' and reason is distinct from 'disconnected'
          and finished_at >= ${since.toISOString()}::timestamptz
        order by occurred_at desc, id desc limit 1`,
  )
  const revived = await revive(
    database,
    last.map(({ id }) => id),
  )
  return revived > 0
}

/** Counts what failed because of a broken connection, and lists what must be connected first. */
export async function readBroken(
  dependencies: Dependencies,
  userId: string,
): Promise<Pick<Summary, 'failedWhileBroken' | 'connectFirst'>> {
  const [{ ids, reasons, more }, connectFirst] = await Promise.all([
    findFailed(dependencies, userId, { filter: all, onlyBroken: true }),
    readConnectFirst(dependencies, userId),
  ])
  const { providers } = dependencies
  const isOfSome = (id: ProviderId) => reasons.some((reason) => mayBeOf(providers, id, reason))
  return {
    failedWhileBroken: {
      count: ids.length,
      more,
      providers: usedOf(providers, providerIds).filter(isOfSome),
    },
    connectFirst,
  }
}

/** Lists what must be connected before any message of the user can be sent. */
export async function readConnectFirst(
  { database, providers }: Dependencies,
  userId: string,
): Promise<ProviderId[]> {
  const working = await rowsOf<{ provider: ProviderId }>(
    database,
    sql`select ${connections.provider} as provider from ${connections}
        where ${connections.userId} = ${userId} and ${connections.brokenSince} is null
`,
  )
  return [
    ...(working.some(({ provider }) => isCrmId(provider)) ? [] : [usedOf(providers, crmIds)[0]]),
    ...(working.some(({ provider }) => isChatId(provider)) ? [] : [usedOf(providers, chatIds)[0]]),
  ]
}
