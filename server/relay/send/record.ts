// The statements that record what became of deliveries: sent, ended, put off, or moved to another channel. Each changes
// only deliveries that are still pending. Unless the chat has accepted the message, the process must also hold the lease
// of the channel, or its claim must still last. So a process that stood still cannot undo what another one did.

import { type SQL, sql } from 'drizzle-orm'
import { type Database, type Executor, rowsOf } from '../../database/open.ts'
import { deliveries } from '../../database/schema.ts'
import type { Connection } from '../../people/connections.ts'
import { chatOf } from '../../people/routes.ts'
import type { Pace } from '../../providers/provider.ts'
import { type Delivery, type Group, longestPutOffMs } from '../pick/delivery.ts'
import { leaseOf, makeDue } from '../schedule/channels.ts'
import { pauseSql } from '../schedule/pauses.ts'
import {
  eventIdsOf,
  firstUnclaimed,
  idsOf,
  isPendingIn,
  isUnclaimed,
  setShown,
  shownItems,
} from './group-sql.ts'

/**
 * The rule of each delivery. If this try knows no rule, the stored rule stays. A claim does not store it: the rule
 * is in an index, and a change of an indexed column makes PostgreSQL write to all indexes of the table.
 */
const ruleOf = (group: Group) => sql`coalesce(
  (${sql.param(group.map(({ shown }) => shown?.ruleId ?? null))}::text[])[
    array_position(${idsOf(group)}, ${deliveries.id})], rule_id)`

/**
 * The deliveries of a group that this process may change, as a table `owned`: those that are pending and that
 * nobody has claimed since the process read or claimed them. The process must hold the lease of their channel,
 * or its claim must still last. The rows are locked in one order. Otherwise two statements could wait for each
 * other.
 */
const owned = (processId: string, group: Group) => sql`
  lease as materialized (
    ${leaseOf(processId, group[0].channel)}
  ), owned as materialized (
    select id from deliveries
    where ${isPendingIn(group)} and channel = ${group[0].channel}
      and sending_until is not distinct from ${group[0].claimedUntil}::timestamptz
      and (exists (select from lease) or sending_until > clock_timestamp())
    order by id for update
  )`

/**
 * Records a message that the chat accepted, also if the process has lost lease and claim: the message must
 * not be sent again. The pause of the channel starts now.
 * @returns whether the channel has another pending delivery, and whether it has one of the same events.
 */
export async function recordSent(
  database: Database,
  group: Group,
  pace: Pace,
): Promise<{ more: boolean; sameEvent: boolean }> {
  const { channel, claimedUntil } = group[0]
  const [row] = await rowsOf<{ more: boolean; sameEvent: boolean }>(
    database,
    sql`with paused as (
          ${pauseSql(channel, pace)} returning id
        ), sent as (
          update deliveries
          set state = 'sent', reason = null, finished_at = now(), attempts = attempts + 1,
              -- Another process may have moved it meanwhile. The list names the channel that has it.
              channel = ${channel},
              -- If this process stood still, another one may be sending it again. A disconnect waits for that claim.
              sending_until = nullif(sending_until, ${claimedUntil}::timestamptz), rule_id = ${ruleOf(group)}
          where id = any(${idsOf(group)})
            and (state = 'pending' or sending_until = ${claimedUntil}::timestamptz)
            -- Lock the channel first, as the claim does.
            and (select count(*) from paused) >= 0
        )
        -- In order, so that it is an entry of the index, and not the first row of the table.
        select (
          select true from deliveries
          where channel = ${channel} and state = 'pending' and id <> all(${idsOf(group)})
          order by user_id, occurred_at, id limit 1
        ) is not null as more, exists (
          select from deliveries
          where event_id = any(${eventIdsOf(group)}) and state = 'pending'
            and channel = ${channel} and id <> all(${idsOf(group)})
        ) as "sameEvent"`,
  )
  return row ?? { more: false, sameEvent: false }
}

/**
 * Ends the deliveries of these events to other users of the channel, if it has a message about the event. A user who has
 * chosen another channel meanwhile still gets the message there.
 * @param isShared whether the list of those users may show what was read of the deal for another one.
 * @returns how many it ended.
 */
export async function endSaid(
  database: Database,
  group: Group,
  isShared: boolean,
): Promise<number> {
  const { channel } = group[0]
  const ended = await rowsOf(
    database,
    sql`update deliveries as other
        set state = 'ignored', reason = 'said_in_channel', finished_at = now(), rule_id = said.rule_id${
          isShared
            ? sql`,
            deal_name = said.deal_name, deal_url = said.deal_url,
            from_label = said.from_label, to_label = said.to_label`
            : sql``
        }
        from deliveries as said
        where said.event_id = other.event_id and said.channel = other.channel and said.state = 'sent'
          and other.id = any(array(
            select id from deliveries
            where event_id = any(${eventIdsOf(group)}) and state = 'pending'
              and channel = ${channel} and ${isUnclaimed}
              and channel = ${chatOf(deliveries.userId, sql`account_id || '/' || channel_id`)}
            order by id for update
          ))
        returning other.id`,
  )
  return ended.length
}

/** @returns the ids of those that it ended, and whether this process still has the lease of the channel. */
export async function recordEnd(
  database: Database,
  processId: string,
  group: Group,
  { state, reason, countTry }: { state: 'dead' | 'ignored'; reason: string; countTry: boolean },
): Promise<{ ended: number[]; isLeased: boolean }> {
  const [row] = await rowsOf<{ ended: number[]; isLeased: boolean }>(
    database,
    sql`with ${owned(processId, group)}, changed as (
          update deliveries
          set state = ${state}, reason = ${reason}, finished_at = now(), sending_until = null,
              attempts = attempts + ${Number(countTry)}::int,
              rule_id = coalesce(item."ruleId", rule_id), ${setShown}
          from ${shownItems(group)}
          where id = item.delivery and id = any(array(select id from owned))
          returning id
        )
        select coalesce((select json_agg(id) from changed), '[]') as ended,
          exists (select from lease) as "isLeased"`,
  )
  return row ?? { ended: [], isLeased: false }
}

export interface PutOff {
  afterMs: number
  reason: string | null
  /** Set it after a failed try. */
  countTry?: boolean
  /** The form of the next try, after the chat has refused a richer one. */
  form?: 'single' | 'plain'
  /** The deliveries fail alone. */
  alone?: boolean
}

/**
 * If the chat may have posted the message, its deliveries keep the end time of their claim: it shows which deliveries were
 * in the message. The claim itself ends now.
 */
const endClaim = ([{ mayBePosted }]: Group) =>
  mayBePosted
    ? sql`case when sending_until is not null then least(sending_until, now()) end`
    : sql`null`

/** @returns whether this process still has the lease of the channel. Otherwise it may have changed nothing. */
export async function recordPutOff(
  database: Database,
  processId: string,
  group: Group,
  { afterMs, reason, countTry = false, form, alone = false }: PutOff,
): Promise<boolean> {
  return await hasLease(
    database,
    sql`with ${owned(processId, group)}, changed as (
          update deliveries
          set not_before = now() + make_interval(secs => ${Math.min(afterMs, longestPutOffMs) / 1000}), reason = ${reason},
              sending_until = ${endClaim(group)}, rule_id = ${ruleOf(group)}, form = coalesce(${form ?? null}, form),
              attempts = attempts + ${Number(countTry)}::int, alone = alone or ${alone}
          where id = any(array(select id from owned))
        )
        select from lease`,
  )
}

/** A later message was sent, so these failed deliveries fail alone. What failed them may be over, so their wait ends. */
export async function setAlone(database: Database, ids: readonly number[]): Promise<void> {
  await database.execute(
    sql`update deliveries set not_before = null, alone = true
        where id = any(array(
          select id from deliveries where id = any(${sql.param([...ids])}::bigint[]) and state = 'pending'
          order by id for update
        ))`,
  )
}

/**
 * Moves the user's first pending deliveries from this channel to the one that the user chose later.
 * @returns whether this process has the lease of the old channel. Otherwise it changes nothing.
 */
export async function moveToChannel(
  database: Database,
  processId: string,
  delivery: Delivery,
  newChannel: string,
): Promise<boolean> {
  const { channel } = delivery
  return await database.transaction(async (tx) => {
    // This locks both channels in the order of all statements, so that the lease stays as it is.
    await makeDue(tx, [channel, newChannel])
    if (!(await hasLease(tx, leaseOf(processId, channel)))) return false
    await tx.execute(
      sql`update deliveries set channel = ${newChannel}
          where id = any(array${firstUnclaimed(delivery)})`,
    )
    return true
  })
}

/** Why a user's deliveries end that wait in a channel: a connection is broken, or the user has disconnected. */
export type BacklogEnd = Connection | 'disconnected'

/**
 * Ends the first of a user's deliveries that wait in a channel, a batch of them. If the broken connection works again
 * meanwhile, ends none. After a disconnect, ends those from before it.
 * @returns how many it ended; undefined if this process no longer has the lease of the channel.
 */
export async function endBacklog(
  database: Database,
  processId: string,
  delivery: Delivery,
  why: BacklogEnd,
): Promise<number | undefined> {
  const { reason, condition } =
    why === 'disconnected'
      ? {
          reason: why,
          condition: sql`id <= (select ended_through from users where id = ${delivery.userId})`,
        }
      : {
          reason: why.brokenReason,
          condition: sql`exists (
            select from connections
            where id = ${why.id} and broken_since is not null and ask_again_at is null
          )`,
        }
  const [row] = await rowsOf<{ ended: number }>(
    database,
    sql`with lease as materialized (
          ${leaseOf(processId, delivery.channel)}
        ), ended as (
          update deliveries
          set state = 'dead', reason = ${reason}, finished_at = now(), sending_until = null
          where exists (select from lease) and id = any(array${firstUnclaimed(delivery, condition)})
          returning id
        )
        select (select count(*)::int from ended) as ended from lease`,
  )
  return row?.ended
}

async function hasLease(database: Executor, query: SQL): Promise<boolean> {
  return (await rowsOf(database, query)).length > 0
}
