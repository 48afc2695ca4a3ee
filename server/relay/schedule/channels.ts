import { type SQL, sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../../database/open.ts'
import { workspaceOf } from './pace.ts'

/**
 * The table `channels` is the relay's schedule. `due_at` says when a channel has work. A process
 * leases a channel before it works on it, so no other process works on this channel at the same
 * time. The lease clears `due_at`. A transaction that adds a delivery sets `due_at` again. So if an
 * event arrives during the work on its channel, the channel becomes due once more.
 */

/** A lease ends this long after its last renewal. Its process is then dead or frozen. */
const leaseSeconds = 10

/** Slack accepts one message a second in a channel. */
const paceMs = 1_000

type Executor = Pick<Database, 'execute'>

/**
 * Selects channels and locks their rows. Every statement that changes several channels locks them in this
 * order. Otherwise two statements could wait for each other.
 */
const locked = (condition: SQL) =>
  sql`(select id from channels where ${condition} order by id for update)`

/** Makes channels due now. Call it in the transaction that adds deliveries, after adding them. */
export async function makeDue(tx: Executor, channels: readonly string[]): Promise<void> {
  if (channels.length === 0) return
  await tx.execute(makeDueFrom(sql`select unnest(${sql.param([...channels])}::text[]) as channel`))
}

/** Returns the SQL that makes channels due now: those that `source` selects as `channel`. */
export function makeDueFrom(source: SQL): SQL {
  // Sort: it locks the rows in this order, as `locked` does.
  return sql`insert into channels (id, due_at)
             select distinct channel, now() from (${source}) as source order by channel
             on conflict (id) do update set due_at = least(channels.due_at, excluded.due_at)`
}

/**
 * Leases up to `limit` channels that are due or whose lease has ended. The longest due come first.
 * @param held the channels that `owner` still works on. The statement does not lease them again, even if their
 * leases have ended.
 */
export async function leaseDue(
  database: Executor,
  owner: string,
  limit: number,
  held: readonly string[],
): Promise<string[]> {
  const rows = await rowsOf<{ id: string }>(
    database,
    sql`update channels
        set leased_by = ${owner},
            leased_until = now() + make_interval(secs => ${leaseSeconds}),
            due_at = null
        where id in (
          select id from channels
          where ((leased_until is null and due_at <= now()) or leased_until <= now())
            and id <> all(${sql.param([...held])}::text[])
          order by coalesce(due_at, leased_until)
          limit ${limit}
          for update skip locked
        )
        returning id`,
  )
  return rows.map(({ id }) => id)
}

/**
 * Renews the leases of the channels that a process works on. If the answer of `leaseDue` was lost, the
 * process holds a lease that it does not know of. This one ends by itself.
 */
export async function renewLeases(
  database: Executor,
  owner: string,
  held: readonly string[],
): Promise<void> {
  await database.execute(
    sql`update channels set leased_until = now() + make_interval(secs => ${leaseSeconds})
        where id in ${locked(sql`leased_by = ${owner} and id = any(${sql.param([...held])}::text[])`)}`,
  )
}

export interface Release {
  channel: string
  /** When the channel is due again, in ms from now. If unset, only a new delivery makes it due. */
  againMs?: number
}

/** Ends leases of `owner`. Does not change channels that `owner` no longer holds. */
export async function releaseLeases(
  database: Executor,
  owner: string,
  releases: readonly Release[],
): Promise<void> {
  const ids = sql.param(releases.map(({ channel }) => channel))
  await database.execute(
    sql`update channels
        set leased_by = null,
            leased_until = null,
            due_at = least(due_at, now() + make_interval(secs => "againMs" / 1000))
        from json_to_recordset(${JSON.stringify(releases)}::json)
          as release(channel text, "againMs" double precision)
        where id = release.channel
          and id in ${locked(sql`leased_by = ${owner} and id = any(${ids}::text[])`)}`,
  )
}

/** Ends every lease. Call it only if no other process uses this database. */
export async function releaseAllLeases(database: Executor): Promise<void> {
  await database.execute(
    sql`update channels set leased_by = null, leased_until = null, due_at = now()
        where leased_until is not null`,
  )
}

/**
 * Returns the SQL that delays the channel's next message to at least one second from now. With a name, it
 * also notes what the channel is called.
 */
export function pause(channel: string, name?: string | null): SQL {
  return sql`${pauseFor(paceMs, name)} where id = ${channel}`
}

/**
 * Returns the SQL that delays the next message of each channel of this channel's workspace. Slack counts
 * per workspace when it asks for a pause.
 */
export function pauseWorkspace(channel: string, forMs: number): SQL {
  return sql`${pauseFor(forMs)}
             where id in ${locked(sql`starts_with(id, ${`${workspaceOf(channel)}/`})`)}`
}

// Use clock_timestamp(). now() is the start of the transaction, before it waited for locks.
const pauseFor = (forMs: number, name?: string | null) =>
  sql`update channels
      set ${name ? sql`name = ${name},` : sql``}
          next_at = greatest(next_at, clock_timestamp() + make_interval(secs => ${forMs / 1000}))`
