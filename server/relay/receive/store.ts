// The SQL that stores events from webhooks and from a search. Gets events that fit into one transaction (`firstOf`), and
// for whom they are (`targetsOf`). Inserts each event whose key is new, a delivery of it for each user of its account,
// and makes the channels due. So an event is never stored without its deliveries, and no delivery waits in a channel
// that nobody works on.

import { type SQL, sql } from 'drizzle-orm'
import { type Executor, rowsOf } from '../../database/open.ts'
import { isOfConfigured } from '../../people/connections.ts'
import { channelOf, chatOf } from '../../people/routes.ts'
import type { DealEvent, Providers } from '../../providers/provider.ts'
import type { CrmId } from '../../providers/registry.ts'
import { makeDueFrom } from '../schedule/channels.ts'

export type CrmEvent = DealEvent & { crm: CrmId }

/** A user who gets the changes of an account. */
interface Target {
  crm: string
  account: string
  user: string
  channel: string
  /** The user gets no changes from before this time, in ms since 1970. */
  sinceMs: number
}

/**
 * The most rows (events and deliveries) of one transaction. On PGlite, a transaction of this size blocks the thread
 * for 60 to 70 ms.
 */
export const maxRowsAtOnce = 2_000

/**
 * An advisory lock. A transaction that stores webhooks shares it with others of its kind. A transaction that stores
 * missed changes takes it alone. Otherwise neither would see that the other one stores the same change.
 */
const storeLock = 7_325_214

const connectedSinceMs = sql`
  (extract(epoch from greatest(crm.connected_since, chat.connected_since)) * 1000)::float8`

/**
 * Returns the users of the events' accounts. If there are any, the transaction has the lock then. A
 * webhook is for every user who is connected now, and a missed change for those who were connected then.
 */
export async function targetsOf(
  tx: Executor,
  providers: Providers,
  events: readonly CrmEvent[],
  lock: 'shared' | 'exclusive',
): Promise<Target[]> {
  const rows = await rowsOf<
    Omit<Target, 'channel'> & { chatAccount: string; chatChannel: string | null }
  >(
    tx,
    sql`select crm.provider as crm, crm.account_id as account, crm.user_id as "user",
               chat.account_id as "chatAccount", chat.channel_id as "chatChannel",
               ${lock === 'shared' ? sql`0` : connectedSinceMs} as "sinceMs",
               ${lock === 'shared' ? sql`pg_advisory_xact_lock_shared` : sql`pg_advisory_xact_lock`}(${storeLock})
        from connections crm
        cross join lateral ${chatOf(
          providers,
          sql`crm.user_id`,
          sql`account_id, channel_id, connected_since`,
        )} as chat
        where crm.provider = any(${sql.param([...new Set(events.map(({ crm }) => crm))])}::text[])
          and crm.account_id = any(${sql.param([...new Set(events.map(({ accountId }) => accountId))])}::text[])
          and ${isOfConfigured(providers, { provider: sql`crm.provider`, standIn: sql`crm.stand_in` })}
        order by crm.id`,
  )
  return rows.map(({ chatAccount, chatChannel, crm, account, user, sinceMs }) => {
    const channel = channelOf({ accountId: chatAccount, channelId: chatChannel })
    return { crm, account, user, channel, sinceMs }
  })
}

/** Returns the function that says how many users an event is for. */
export function usersOf(targets: readonly Target[]): (event: CrmEvent) => number {
  const ofAccount = Map.groupBy(targets, ({ crm, account }) => `${crm}/${account}`)
  return ({ crm, accountId }) => ofAccount.get(`${crm}/${accountId}`)?.length ?? 0
}

/** The first of these events that together need at most `maxRowsAtOnce` rows, but at least one event. */
export function firstOf(
  events: readonly CrmEvent[],
  users: (event: CrmEvent) => number,
): readonly CrmEvent[] {
  let rows = 0
  const end = events.findIndex((event, at) => {
    rows += 1 + users(event)
    return at > 0 && rows > maxRowsAtOnce
  })
  return end === -1 ? events : events.slice(0, end)
}

/**
 * Inserts new events and their deliveries. With `unlessSearched`, leaves out the events of deals that
 * have an event found by a search, because it may be the same. Also makes `channels` due, which have got
 * other deliveries. A transaction may call it once: it locks channels. @returns how many it inserted.
 */
export async function insertEvents(
  tx: Executor,
  events: readonly CrmEvent[],
  targets: readonly Target[],
  {
    foundBy,
    unlessSearched = false,
    channels = [],
  }: { foundBy: 'webhook' | 'search'; unlessSearched?: boolean; channels?: readonly string[] },
): Promise<number> {
  // Sort by the events alone, so that two transactions with the same events cannot deadlock. If
  // two events have the same time, the relay sends the one that was inserted first.
  const rows = events
    .toSorted(byTime)
    .map(({ occurredAt, ...event }) => ({ ...event, at: occurredAt.toISOString() }))
  const [inserted] = await rowsOf<{ count: number }>(
    tx,
    sql`with stored as (
          insert into deal_events
            (key, crm, account_id, deal_id, former_deal_ids, property, value, occurred_at, found_by)
          select key, crm, "accountId", "dealId", "formerDealIds", property, value, at, ${foundBy}::text
          from json_to_recordset(${JSON.stringify(rows)}::json)
            as item(key text, crm text, "accountId" text, "dealId" text, "formerDealIds" text[],
                    property text, value text, at timestamptz)
          ${unlessSearched ? ofUnsearchedDeals : sql``}
          on conflict (key) do nothing
          returning id, crm, account_id, occurred_at
        ), made as (
          ${deliverStored(targets)} returning channel
        ), due as (
          ${makeDueFrom(sql`select channel from made
            union all select unnest(${sql.param([...channels])}::text[])`)}
        )
        select count(*)::int as count from stored`,
  )
  return inserted?.count ?? 0
}

/** Returns the SQL that inserts the deliveries of the events that the query `stored` returns. */
export const deliverStored = (targets: readonly Target[]) => sql`
  insert into deliveries (event_id, user_id, channel, occurred_at)
  select stored.id, target."user", target.channel, stored.occurred_at
  from stored
  join json_to_recordset(${JSON.stringify(targets)}::json)
    as target(crm text, account text, "user" uuid, channel text, "sinceMs" float8)
    on target.crm = stored.crm and target.account = stored.account_id
    and target."sinceMs" <= extract(epoch from stored.occurred_at) * 1000
  order by stored.id`

/** The events of a deal that a search found, under this id or, after a merge, under another one. */
export const foundOf = (deal: SQL) => sql`
  select id from deal_events
  where account_id = ${deal}."accountId" and deal_id = ${deal}."dealId" and found_by = 'search'
  union all
  select id from deal_events
  where account_id = ${deal}."accountId" and former_deal_ids @> array[${deal}."dealId"]
    and found_by = 'search'`

// One look at the index is enough while no search has found anything, which is the usual case.
// A union stays a lookup for each event, and does not become a join that may change their order.
const ofUnsearchedDeals = sql`
  where (select id from deal_events where found_by = 'search' order by account_id, deal_id limit 1) is null
    or not exists (${foundOf(sql`item`)})`

export const byTime = (a: DealEvent, b: DealEvent) =>
  a.occurredAt.getTime() - b.occurredAt.getTime() ||
  Number(a.dealId) - Number(b.dealId) ||
  (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
