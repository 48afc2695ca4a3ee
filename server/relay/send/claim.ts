import { and, eq, or, sql } from 'drizzle-orm'
import { pausedUntil } from '../../database/clock.ts'
import { type Executor, rowsOf } from '../../database/open.ts'
import { connections } from '../../database/schema.ts'
import type { Connection } from '../../people/connections.ts'
import type { Pace } from '../../providers/provider.ts'
import { claimMs, type Group, isClaimed } from '../pick/delivery.ts'
import { pauseSql } from '../schedule/pauses.ts'
import { eventIdsOf, idsOf, isPendingIn, isUnclaimed, setShown, shownItems } from './group-sql.ts'

/** The post must begin so soon after the claim, because the claim must not end before the post. */
const postWithinMs = 9_000
/** The wait before the next claim while another call is sending the same event. */
const claimAgainMs = 1_000

export type Claim =
  | {
      kind: 'claimed'
      /** The end of the claim. */
      claimedUntil: string
      /** Whether the claim is new enough for a post that begins now. */
      mayPost: () => boolean
    }
  | { kind: 'wait'; ms: number }
  /** Another call has sent or ended the delivery, or its user has disconnected. */
  | { kind: 'gone' }
  | { kind: 'lease lost' }
  /** The channel already has a message about one of the events, for another user. */
  | { kind: 'sent already' }

/**
 * Claims the channel's next moment for a message about these deliveries of one user, right before the call to the
 * chat. Both connections must still exist and work, and no new one may have replaced them. One statement does all of
 * this, for all deliveries or for none:
 * - It checks the lease on the locked row, so a process that lost the lease cannot send.
 * - It locks the connections. So a disconnect either comes before the claim, or waits until the
 *   message is sent.
 * - It checks the deliveries of the same events to other users of the channel: nobody has sent or is sending one.
 */
export async function claim(
  database: Executor,
  processId: string,
  group: Group,
  used: readonly [Connection, Connection],
  pace: Pace,
): Promise<Claim> {
  const { channel, chat } = group[0]
  const ids = idsOf(group)
  const isFree = sql`${isPendingIn(group)} and ${isUnclaimed}`
  const freeAt = pausedUntil(sql`channels`, sql`clock_timestamp()`)
  const elapsedMs = stopwatch()
  const [row] = await rowsOf<{
    claimed: boolean
    claimed_until: string
    connected: boolean
    /** What became of another user's delivery of an event in this channel. Null if there is none, or it only waits. */
    same_event: 'sent' | 'sending' | null
    wait_ms: string | null
  }>(
    database,
    // Use clock_timestamp(). now() is the start of the statement, before it waited for locks.
    sql`with clock as materialized (
          select clock_timestamp() + make_interval(secs => ${claimMs / 1000}) as claimed_until
        ), own as (
          select id from connections
          where (broken_since is null or ask_again_at is not null) and (
            ${or(...used.map(({ id, connectedAt }) => and(eq(connections.id, id), eq(connections.connectedAt, connectedAt))))}
          ) for share
        ), connected as (
          select count(*) = 2 as yes from own
        ), free as (
          select count(*) = ${group.length} as yes from deliveries where ${isFree}
        ), same_event as (
          select case bool_or(state = 'sent') when true then 'sent' when false then 'sending' end as state
          from deliveries
          where event_id = any(${eventIdsOf(group)}) and channel = ${channel} and id <> all(${ids})
            and (state = 'sent' or ${isClaimed})
        ), slot as (
          ${pauseSql(channel, pace, chat?.channelName)} and leased_by = ${processId}
            and (${freeAt} > clock_timestamp()) is not true
            and (select yes from connected) and (select yes from free)
            and (select state is null from same_event)
          returning id
        ), claimed as (
          update deliveries
          set sending_until = (select claimed_until from clock), ${setShown}
          from ${shownItems(group)}
          where id = item.delivery and ${isFree} and exists (select from slot)
          returning id
        )
        select (select count(*) from claimed) = ${group.length} as claimed,
               (select claimed_until::text from clock) as claimed_until,
               (select yes from connected) as connected,
               (select state from same_event) as same_event,
               (select coalesce(extract(epoch from ${freeAt} - clock_timestamp()) * 1000, 0)
                from channels where id = ${channel} and leased_by = ${processId}) as wait_ms`,
  )
  if (row === undefined || row.wait_ms === null) return { kind: 'lease lost' }
  if (row.claimed) {
    const { claimed_until: claimedUntil } = row
    return { kind: 'claimed', claimedUntil, mayPost: () => elapsedMs() < postWithinMs }
  }
  if (!row.connected) return { kind: 'gone' }
  if (row.same_event === 'sent') return { kind: 'sent already' }
  // Another call is sending the event. If its process has died, that claim ends by itself.
  if (row.same_event === 'sending') return { kind: 'wait', ms: claimAgainMs }
  const waitMs = Number(row.wait_ms)
  return waitMs > 0 ? { kind: 'wait', ms: waitMs } : { kind: 'gone' }
}

/**
 * Measures the time since this call by two clocks and takes the longer one: `performance.now()` may stop
 * while the machine sleeps, and `Date.now()` may be set back. The database's clock is not compared, because
 * it may differ from ours.
 */
function stopwatch(): () => number {
  const [steadyMs, wallMs] = [performance.now(), Date.now()]
  return () => Math.max(performance.now() - steadyMs, Date.now() - wallMs)
}
