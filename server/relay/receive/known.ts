// Compares events with those that are stored. Webhooks and a search may report the same change, with different keys and
// slightly different times. The later report finds the event that the earlier one stored. `unknownOf` serves a search,
// `insertUnlessFound` webhooks.

import { type SQL, sql } from 'drizzle-orm'
import { type Executor, rowsOf } from '../../database/open.ts'
import type { Providers } from '../../providers/provider.ts'
import { dealIdsOf, type ReportedChange, sameChanges, toleranceMs } from './same-change.ts'
import { type CrmEvent, deliverStored, foundOf, insertEvents, targetsOf } from './store.ts'

/** The most known events to compare with, those of the nearest time. One deal may have thousands within a minute. */
const mostKnown = 2_000

/** Some of the events that a search has found, in order of occurrence. */
export interface FoundEvents {
  events: readonly CrmEvent[]
  /** The events before and after them. A known event may be the same as one of these. */
  near: readonly CrmEvent[]
}

/** Returns the events of a search that are not stored yet. */
export async function unknownOf(tx: Executor, { events, near }: FoundEvents): Promise<CrmEvent[]> {
  if (events.length === 0) return []
  const { from, until } = timesAround(events)
  const known = await knownEvents(
    tx,
    sql`select known.* from ${dealsOf(events)} cross join lateral (
          select ${knownColumns}, greatest(${from} - occurred_at, occurred_at - ${until}) as away
          from deal_events
          where account_id = deal."accountId" and deal_id = deal."dealId"
            and occurred_at between ${from} and ${until}
          offset 0
        ) as known
        order by away limit ${mostKnown}`,
  )
  const found = sameChanges([...events, ...near], known)
  return events.filter((event) => !found.has(event))
}

/**
 * Inserts events from webhooks, except those that a search has found before. Such an event gets the key
 * of the webhook, so that it also counts as stored if the webhook comes again. It also gets the deliveries
 * to users who were not connected at its time, because a webhook is for every user who is connected now.
 * @returns how many it inserted.
 */
export async function insertUnlessFound(
  tx: Executor,
  providers: Providers,
  events: readonly CrmEvent[],
): Promise<number> {
  const keys = sql.param(events.map(({ key }) => key))
  const stored = await rowsOf<{ key: string }>(
    tx,
    sql`select key from deal_events where key = any(${keys}::text[])`,
  )
  const storedKeys = new Set(stored.map(({ key }) => key))
  const byKey = new Map(events.map((event) => [event.key, event]))
  const fresh = [...byKey.values()].filter(({ key }) => !storedKeys.has(key))
  if (fresh.length === 0) return 0

  const { from, until } = timesAround(fresh)
  // Another transaction may handle a copy of the webhook. This waits until it has set the key.
  const found = await knownEvents(
    tx,
    sql`select ${knownColumns} from deal_events
        where found_by = 'search' and occurred_at between ${from} and ${until}
          and id in (
            select found.id from ${dealsOf(fresh)} cross join lateral (${foundOf(sql`deal`)}) as found
          )
        order by id for update`,
  )
  const same = sameChanges(fresh, found)
  const targets = await targetsOf(tx, providers, fresh, 'shared')
  const pairs = [...same].map(([{ key }, { id }]) => ({ id, key }))
  const made = await rowsOf<{ channel: string }>(
    tx,
    sql`with stored as (
          update deal_events set key = pair.key, found_by = 'webhook'
          from json_to_recordset(${JSON.stringify(pairs)}::json) as pair(id bigint, key text)
          where deal_events.id = pair.id
          returning deal_events.id, crm, account_id, occurred_at
        )
        ${deliverStored(targets)} on conflict (event_id, user_id) do nothing returning channel`,
  )
  const others = fresh.filter((event) => !same.has(event))
  const channels = made.map(({ channel }) => channel)
  return await insertEvents(tx, others, targets, { foundBy: 'webhook', channels })
}

interface KnownEvent extends ReportedChange {
  id: string
}

const knownColumns = sql`id::text as id, crm, account_id as "accountId", deal_id as "dealId",
  coalesce(former_deal_ids, '{}') as "formerDealIds", property, value,
  (extract(epoch from occurred_at) * 1000)::float8 as at`

async function knownEvents(tx: Executor, query: SQL): Promise<KnownEvent[]> {
  const rows = await rowsOf<Omit<KnownEvent, 'occurredAt'> & { at: number }>(tx, query)
  return rows.map(({ at, ...row }) => ({ ...row, occurredAt: new Date(at) }))
}

/** When a stored event happened that may be the same as one of these. */
function timesAround(events: readonly CrmEvent[]): { from: SQL; until: SQL } {
  const times = events.map(({ occurredAt }) => occurredAt.getTime())
  const time = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`
  return {
    from: time(Math.min(...times) - toleranceMs),
    until: time(Math.max(...times) + toleranceMs),
  }
}

/** The deals of these events and those that were merged into them, each once, as a table `deal`. */
function dealsOf(events: readonly CrmEvent[]): SQL {
  const ids = new Map(
    events.flatMap(({ accountId, ...deal }) =>
      dealIdsOf(deal).map((dealId) => [`${accountId}/${dealId}`, { accountId, dealId }]),
    ),
  )
  return sql`json_to_recordset(${JSON.stringify([...ids.values()])}::json)
    as deal("accountId" text, "dealId" text)`
}
