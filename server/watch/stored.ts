import { sql } from 'drizzle-orm'
import { type Executor, rowsOf } from '../database/open.ts'
import type { CrmId, ProviderId } from '../providers/registry.ts'

/** What the database says of the relay, in all processes together. */
export interface StoredFigures {
  /** Deliveries that wait, up to `mostCounted`. */
  pending: number
  /** How long the event of the oldest of them has been stored, in seconds; 0 if none waits. */
  oldestPendingS: number
  /** How many of the oldest thousand of them wait for which reason; null if no try has failed. */
  waiting: Array<{ reason: string | null; count: number }>
  /** Channels that are due and that nobody has leased, up to `mostCounted`, and for how long the first has been due. */
  due: Array<{ failing: boolean; count: number; lagS: number }>
}

/** What changes so slowly that its count may be old. */
export interface StoredTotals {
  connections: Array<{ provider: ProviderId; broken: boolean; count: number }>
  /** How long ago the last search for missed changes ended, for the account of which this is longest; 0 without accounts. */
  oldestSearchS: number
  /** The smallest share that an account has left of its day, for each CRM that counts tokens. */
  budgetsLeft: Array<{ crm: CrmId; share: number }>
}

const mostCounted = 10_000
const mostGrouped = 1_000

/** Reads the first entries of two indexes, `deliveries_oldest` and `channels_due_first`, however much waits. */
export async function readStored(database: Executor): Promise<StoredFigures> {
  const oldest = sql`from deliveries where state = 'pending' order by id`
  const [row] = await rowsOf<StoredFigures>(
    database,
    sql`select (
          select count(*)::int from (select ${oldest} limit ${mostCounted}) as waiting
        ) as pending, coalesce((
          select extract(epoch from now() - received_at) from deal_events
          where id = (select event_id ${oldest} limit 1)
        ), 0)::float8 as "oldestPendingS", (
          select coalesce(json_agg(counted), '[]') from (
            select reason, count(*)::int as count
            from (select reason ${oldest} limit ${mostGrouped}) as waiting group by 1 order by 1
          ) as counted
        ) as waiting, (
          select json_agg(each) from (
            select kind.failing, first.*
            from (values (false), (true)) as kind(failing) cross join lateral (
              select count(*)::int as count,
                     coalesce(extract(epoch from now() - min(due_at)), 0)::float8 as "lagS"
              from (
                select due_at from channels
                where failing = kind.failing and due_at <= now() and leased_until is null
                order by due_at limit ${mostCounted}
              ) as due
            ) as first
          ) as each
        ) as due`,
  )
  if (row === undefined) throw new Error('The database gave no figures.')
  return row
}

/** Reads all connections and accounts. With a million, this takes a second. */
export async function readTotals(database: Executor): Promise<StoredTotals> {
  const [row] = await rowsOf<StoredTotals>(
    database,
    sql`select (
          select coalesce(json_agg(counted), '[]') from (
            select provider, broken_since is not null as broken, count(*)::int as count
            from connections
            group by 1, 2 order by 1, 2
          ) as counted
        ) as connections, (
          select greatest(extract(epoch from now() - min(searched_at)), 0)::float8 from crm_accounts
        ) as "oldestSearchS", (
          select coalesce(json_agg(smallest), '[]') from (
            -- A new day has begun for those that were last counted before.
            select crm, min(
              case when day = (now() at time zone 'utc')::date
              then greatest(coalesce(remaining, most - spent), 0) / most::float8 else 1 end
            ) as share
            from crm_budgets group by 1
          ) as smallest
        ) as "budgetsLeft"`,
  )
  if (row === undefined) throw new Error('The database gave no totals.')
  return row
}
