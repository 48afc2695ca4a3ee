import { type SQL, sql } from 'drizzle-orm'
import { isTooFarAhead } from '../../database/clock.ts'
import { type Database, type Executor, rowsOf } from '../../database/open.ts'
import { deliveries } from '../../database/schema.ts'
import { longestWaitMs } from '../../providers/provider.ts'

// The table `channels` is the relay's schedule: `due_at` says when a channel has work, `leased_*` who works on it,
// and `next_at` when it accepts a message.

/**
 * Selects channels and locks their rows. Every statement that changes several channels locks them in this
 * order. Otherwise two statements could wait for each other.
 */
const lockedChannels = (condition: SQL) =>
  sql`(select id from channels where ${condition} order by id for update)`

/** Makes channels due now. Call it in the transaction that adds deliveries, after adding them. */
export async function makeDue(tx: Executor, channels: readonly string[]): Promise<void> {
  if (channels.length === 0) return
  await tx.execute(makeDueFrom(sql`select unnest(${sql.param([...channels])}::text[]) as channel`))
}

/** So many channels of one account become due at once. Further ones follow, so that others come between them. */
const dueAtOnce = 20
const dueApartMs = 10

/** Returns the SQL that makes channels due now: those that `source` selects as `channel`. */
export function makeDueFrom(source: SQL): SQL {
  // Sort: it locks the rows in this order, as `lockedChannels` does.
  return sql`insert into channels (id, due_at)
             select channel, now() + make_interval(secs => ${dueApartMs / 1000}::float8 * greatest(0,
               row_number() over (partition by split_part(channel, '/', 1) order by channel) - ${dueAtOnce}::int))
             from (select distinct channel from (${source}) as source) as each
             order by channel
             on conflict (id) do update set due_at = least(channels.due_at, excluded.due_at), failing = false`
}

/**
 * A lease reserves a row for one process until a time in the row (docs/server/relay.md#leases). The others are
 * `deliveries.sending_until`, `connections.refreshing_until`, `connections.check_at` and `crm_accounts.search_at`.
 * They share no code, because each statement also has conditions of its own.
 *
 * A lease of a channel clears `due_at`. A transaction that adds a delivery sets `due_at` again. So if an event arrives
 * during the work on its channel, the channel becomes due once more.
 */

/** A channel's lease ends this long after its last renewal. Its process is then dead or frozen. */
const leaseSeconds = 10
/** No channel rests for longer: a delivery is put off for minutes at most, and a pause lasts for an hour at most. */
const longestRestMs = longestWaitMs

/** Selects the channel if the process has its lease. */
export const leaseOf = (processId: string, channel: string) =>
  sql`select id from channels where id = ${channel} and leased_by = ${processId}`

export interface Leased {
  channels: ReadonlyArray<{ id: string; failing: boolean }>
  /** The database's clock, in ms since 1970. */
  at: number
}

/**
 * Leases channels that are due or whose lease has ended. The longest due come first, but for a few that became due last:
 * these do not wait behind a crowd.
 * @param most how many, how many of them may be failing, and how many may be those that became due last.
 * @param held the channels that the process still works on. The statement does not lease them again, even if their
 * leases have ended.
 */
export async function leaseDue(
  database: Executor,
  processId: string,
  most: { all: number; failing: number; last: number },
  held: readonly string[],
): Promise<Leased> {
  // Each reads the first entries of an index, however many channels are due or rest.
  const first = (condition: SQL, order: SQL, limit = most.all, rank = 1) => sql`(
    select id, failing, ${rank}::int as rank, coalesce(due_at, leased_until) as since from channels
    where ${condition} and id <> all(${sql.param([...held])}::text[])
    order by ${order} limit ${limit} for update skip locked)`
  const due = (failing: boolean, limit?: number) => {
    const of = sql`leased_until is null and failing = ${sql.raw(String(failing))}`
    const isWrong = isTooFarAhead(sql`due_at`, longestRestMs)
    const last = first(sql`${of} and due_at <= now()`, sql`due_at desc`, most.last, 0)
    return sql`select * from ${first(sql`${of} and due_at <= now()`, sql`due_at`, limit)} as due
      union all select * from ${first(sql`${of} and ${isWrong}`, sql`due_at`, limit)} as wrong
      ${failing ? sql`` : sql`union all select * from ${last} as last`}`
  }
  const [row] = await rowsOf<Leased>(
    database,
    sql`with working as (${due(false)}), failing as (${due(true, most.failing)}),
             ended as ${first(sql`leased_until <= now()`, sql`leased_until`)},
             chosen as (
               select id from (
                 select * from working union all select * from failing union all select * from ended
               ) as each group by id, failing order by min(rank), failing, min(since) limit ${most.all}
             ), leased as (
               update channels
               set leased_by = ${processId},
                   leased_until = now() + make_interval(secs => ${leaseSeconds}),
                   due_at = null
               where id in (select id from chosen)
               returning id, failing
             )
        select coalesce((select json_agg(leased) from leased), '[]') as channels,
               (extract(epoch from now()) * 1000)::float8 as at`,
  )
  return row ?? { channels: [], at: 0 }
}

/**
 * Makes all channels due that rest. Call it at a start and when the clock was put back: a channel may rest until a time
 * that is now far ahead.
 */
export async function endRests(database: Executor): Promise<void> {
  await database.execute(
    sql`update channels set due_at = now() where id in ${lockedChannels(sql`due_at > now()`)}`,
  )
}

/**
 * Renews the leases of the channels that a process works on. If the answer of `leaseDue` was lost, the
 * process holds a lease that it does not know of. This one ends by itself.
 *
 * A lease that lies too far ahead was taken while the clock was wrong. It ends after the time of a new one, and not at
 * once: its process may be about to renew it, and may be posting.
 */
export async function renewLeases(
  database: Executor,
  processId: string,
  held: readonly string[],
): Promise<void> {
  const isHeld = sql`leased_by = ${processId} and id = any(${sql.param([...held])}::text[])`
  const isWrong = isTooFarAhead(sql`leased_until`, leaseSeconds * 1000)
  await database.execute(
    sql`update channels set leased_until = now() + make_interval(secs => ${leaseSeconds})
        where id in ${lockedChannels(sql`(${isHeld}) or ${isWrong}`)}`,
  )
}

export interface Release {
  channel: string
  /** When the channel is due again, in ms from now. If unset, only a new delivery makes it due. */
  againMs?: number
  /** The last try of a delivery has failed. */
  failing?: boolean
}

/** Ends leases of a process. Does not change channels that it no longer holds. */
export async function releaseLeases(
  database: Executor,
  processId: string,
  releases: readonly Release[],
): Promise<void> {
  const ids = sql.param(releases.map(({ channel }) => channel))
  const inTime = releases.map(({ channel, againMs, failing = false }) => ({
    channel,
    againMs: againMs && Math.min(againMs, longestRestMs),
    failing,
  }))
  await database.execute(
    sql`update channels
        set leased_by = null,
            leased_until = null,
            -- A delivery that came meanwhile has made it due.
            failing = release.failing and due_at is null,
            due_at = least(due_at, now() + make_interval(secs => "againMs" / 1000))
        from json_to_recordset(${JSON.stringify(inTime)}::json)
          as release(channel text, "againMs" double precision, failing boolean)
        where id = release.channel
          and id in ${lockedChannels(sql`leased_by = ${processId} and id = any(${ids}::text[])`)}`,
  )
}

/** Ends every lease of channels and deliveries. Call it only if no other process uses this database. */
export async function endAllLeases(database: Database): Promise<void> {
  await database.execute(
    sql`update channels set leased_by = null, leased_until = null, due_at = now()
        where leased_until is not null`,
  )
  await database
    .update(deliveries)
    // Keep the mark: deliveries that were one message stay one message (pick/following.ts).
    .set({ sendingUntil: sql`now()` })
    .where(sql`${deliveries.state} = 'pending' and ${deliveries.sendingUntil} > now()`)
}
