import { sql } from 'drizzle-orm'
import { type Executor, rowsOf } from '../database/open.ts'
import type { ProviderId } from '../providers/registry.ts'

/** What the database says of the relay, in all processes together. */
export interface StoredFigures {
  /** Deliveries that wait, up to `mostCounted`. */
  pending: number
  /** How long the event of the oldest of them has been stored, in seconds; 0 if none waits. */
  oldestPendingS: number
  /** How many connections there are, by provider and whether they work. */
  connections: Array<{ provider: ProviderId; broken: boolean; count: number }>
  /** How long ago the last search for missed changes ended, for the account of which this is longest; 0 without accounts. */
  oldestSearchS: number
}

// With a million pending deliveries, a scrape must not go through all of them.
const mostCounted = 10_000
const mostChannels = 1_000

/** Reads them in one round trip, from indexes and small tables: it must be cheap with millions of deliveries. */
export async function readStored(database: Executor): Promise<StoredFigures> {
  const [row] = await rowsOf<StoredFigures>(
    database,
    // The first pending delivery of each channel: one look at the index `deliveries_pending` for each. It does not ask
    // the schedule (`channels`), because a message that the schedule has forgotten must count, too.
    sql`with recursive head as (
          (select channel, event_id from deliveries where state = 'pending'
           order by channel, occurred_at, id limit 1)
          union all
          select next.* from head cross join lateral (
            select channel, event_id from deliveries where state = 'pending' and channel > head.channel
            order by channel, occurred_at, id limit 1
          ) as next
        )
        select (
          select count(*)::int from (
            select from deliveries where state = 'pending' order by channel, occurred_at, id
            limit ${mostCounted}
          ) as waiting
        ) as pending, (
          select coalesce(extract(epoch from now() - min(received_at)), 0)::float8
          from (select event_id from head limit ${mostChannels}) as oldest
          cross join lateral (select received_at from deal_events where id = event_id) as event
        ) as "oldestPendingS", (
          select coalesce(json_agg(counted), '[]') from (
            select provider, broken_since is not null as broken, count(*)::int as count
            from connections
            group by 1, 2 order by 1, 2
          ) as counted
        ) as connections, (
          select greatest(extract(epoch from now() - min(searched_at)), 0)::float8 from crm_accounts
        ) as "oldestSearchS"`,
  )
  if (row === undefined) throw new Error('The database gave no figures.')
  return row
}
