import { type SQL, sql } from 'drizzle-orm'
import type { RetryAllAnswer, Summary } from '../../../contract/activity.ts'
import { batchRows, inBatches } from '../../database/batches.ts'
import { type Database, rowsOf } from '../../database/open.ts'
import { connections, testProperty } from '../../database/schema.ts'
import { isOfConfigured } from '../../people/connections.ts'
import type { Providers } from '../../providers/provider.ts'
import {
  chatIds,
  crmIds,
  isChatId,
  isCrmId,
  type ProviderId,
  providerIds,
} from '../../providers/registry.ts'
import { revive } from './operator.ts'

interface Dependencies {
  database: Database
  providers: Providers
}

/** The most messages that one call sends again. The list and the counts look no further back, either. */
const mostAtOnce = 1_000

/** By the stored reason of a delivery, the providers whose broken connection it may mean. */
function brokenCodes(providers: Providers): Map<string, ProviderId[]> {
  const codes = new Map<string, ProviderId[]>([['refused', [...crmIds]]])
  for (const id of providerIds) {
    for (const code of Object.keys(providers[id].brokenReasons)) {
      codes.set(code, [...(codes.get(code) ?? []), id])
    }
  }
  return codes
}

/** A user's newest failed deliveries, one more than are sent again at once. */
const newestFailed = (userId: string) => sql`
  select id, event_id, reason from deliveries
  where user_id = ${userId} and state = 'dead'
  order by occurred_at desc, id desc limit ${mostAtOnce + 1}`

/**
 * The condition that a row of `newestFailed` may be sent again with others. A test message is no news, and after a
 * disconnect nothing more was to be sent.
 */
const isNews = sql`
  reason is distinct from 'disconnected'
  and (select property from deal_events where deal_events.id = event_id) <> ${testProperty}`

/** The condition that such a row failed because of a broken connection. */
const becauseBroken = (codes: Iterable<string>): SQL => sql`
  ${isNews} and reason = any(${sql.param([...codes])}::text[])`

/** Makes a user's newest failed deliveries pending again. They keep their places in the list. */
export async function sendAllAgain(
  { database, providers }: Dependencies,
  userId: string,
  { onlyBroken }: { onlyBroken: boolean },
): Promise<RetryAllAnswer> {
  // Find them all first. What a batch revives may soon be dead again, and must not be revived for ever.
  const found = await rowsOf<{ id: string }>(
    database,
    sql`with failed as materialized (${newestFailed(userId)})
        select id::text as id from failed
        where ${onlyBroken ? becauseBroken(brokenCodes(providers).keys()) : isNews}`,
  )
  const more = found.length > mostAtOnce
  // The oldest change goes first.
  const ids = found
    .slice(0, mostAtOnce)
    .map(({ id }) => id)
    .reverse()
  let queued = 0
  await inBatches(async () => {
    const some = ids.splice(0, batchRows)
    if (some.length > 0) queued += await revive(database, some)
    return some.length
  })
  return { queued, more }
}

/** Counts what failed because of a broken connection, and lists what must be connected first. */
export async function readBroken(
  { database, providers }: Dependencies,
  userId: string,
): Promise<Pick<Summary, 'failedWhileBroken' | 'connectFirst'>> {
  const codes = brokenCodes(providers)
  const [failed, connectFirst] = await Promise.all([
    rowsOf<{ reason: string; count: number }>(
      database,
      sql`with failed as materialized (${newestFailed(userId)})
          select reason, count(*)::int as count from failed where ${becauseBroken(codes.keys())}
          group by reason`,
    ),
    readConnectFirst({ database, providers }, userId),
  ])
  const total = failed.reduce((sum, { count }) => sum + count, 0)
  const ofCode = failed.flatMap(({ reason }) => codes.get(reason) ?? [])
  return {
    failedWhileBroken: {
      count: Math.min(total, mostAtOnce),
      more: total > mostAtOnce,
      providers: providerIds.filter((id) => ofCode.includes(id)),
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
          and ${isOfConfigured(providers, connections)}`,
  )
  return [
    ...(working.some(({ provider }) => isCrmId(provider)) ? [] : crmIds.slice(0, 1)),
    ...(working.some(({ provider }) => isChatId(provider)) ? [] : chatIds.slice(0, 1)),
  ]
}
