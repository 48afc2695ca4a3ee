import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, inArray, notInArray, or, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import type { AvailableRuleId } from '../../../contract/rules.ts'
import { batchRows } from '../../database/batches.ts'
import { type Database, rowsOf } from '../../database/open.ts'
import {
  channels,
  connections,
  dealEvents,
  deliveries,
  rules,
  testProperty,
} from '../../database/schema.ts'
import type { Connection } from '../../people/connections.ts'
import { chatOf, crmOf } from '../../people/routes.ts'
import type { Providers } from '../../providers/provider.ts'
import type { CrmId, DealProperty } from '../../providers/registry.ts'
import { makeDue, pause, pauseWorkspace } from '../schedule/channels.ts'

/** How long a claim lasts. Both ways to post to Slack take eleven seconds together. */
const sendingSeconds = 20
/** The post must begin so soon after the claim, because the claim must not end before the post. */
const postWithinMs = 9_000

/** The next delivery of a channel, with everything that is needed to send it. */
export interface Delivery {
  id: number
  eventId: number
  userId: string
  channel: string
  /**
   * How many tries have a recorded outcome. A missing answer is also an outcome. A claim alone is not a try, because
   * the database may fail after it.
   */
  attempts: number
  crmId: CrmId
  accountId: string
  dealId: string
  property: DealProperty | typeof testProperty
  value: string
  occurredAt: Date
  /** When the event arrived, in ms since 1970. */
  receivedAtMs: number
  /**
   * When the latest claim of this delivery ends. The claim is this process's own, or an earlier one whose outcome
   * nobody recorded. Null if there is no such claim. Deliveries with the same time were claimed for one message.
   */
  claimedUntil: string | null
  /** When the channel accepts its next message, on the clock of `performance.now()`. */
  channelFreeAt: number
  crm: Connection | null
  chat: Connection | null
  ruleIds: readonly string[]
  /** How many deliveries are pending in the channel, this one included. Counted up to `manyWaiting`. */
  waiting: number
  /** What is known of the change, for the user's list of messages. */
  shown?: Shown
}

/** A delivery about a change of a deal, and not a test message. */
export interface DealDelivery extends Delivery {
  property: DealProperty
}

export function isOfDeal<Some extends Delivery>(delivery: Some): delivery is Some & DealDelivery {
  return delivery.property !== testProperty
}

/** What the user's list of messages shows of a change. Texts are one short line. */
export interface Shown {
  ruleId?: AvailableRuleId
  dealName?: string | undefined
  dealUrl?: string | undefined
  from?: string | undefined
  to?: string | undefined
}

/** From this many pending deliveries on, the relay sends a digest. */
export const manyWaiting = 6

export type Next =
  | { kind: 'delivery'; delivery: Delivery }
  | { kind: 'wait'; ms: number }
  | { kind: 'nothing' }

const crm = alias(connections, 'crm')
const chat = alias(connections, 'chat')
const milliseconds = (time: SQL) => sql<number>`extract(epoch from ${time}) * 1000`.mapWith(Number)
/** What both reads of pending deliveries select of a delivery and its event. */
const deliveryAndEvent = {
  id: deliveries.id,
  eventId: deliveries.eventId,
  attempts: deliveries.attempts,
  crmId: dealEvents.crm,
  accountId: dealEvents.accountId,
  dealId: dealEvents.dealId,
  property: dealEvents.property,
  value: dealEvents.value,
  occurredAt: dealEvents.occurredAt,
  ageMs: milliseconds(sql`now() - ${dealEvents.receivedAt}`),
  waitMs: milliseconds(
    sql`greatest(${deliveries.notBefore}, ${deliveries.sendingUntil}, now()) - now()`,
  ),
  claimedUntil: sql<string | null>`${deliveries.sendingUntil}::text`,
}

/**
 * Returns the first pending delivery of a channel that need not wait, by time of occurrence. If a
 * delivery must wait, later deliveries of the same user wait too, so that their order is kept.
 * Deliveries of other users do not wait.
 */
export async function nextDelivery(
  database: Database,
  providers: Providers,
  channel: string,
): Promise<Next> {
  const waitingUsers: string[] = []
  let waitMs = Number.POSITIVE_INFINITY
  for (;;) {
    const askedAt = Date.now()
    const [row] = await database
      .select({
        ...deliveryAndEvent,
        userId: deliveries.userId,
        waiting: sql`(
          select count(*) from (
            select from ${deliveries} as each
            where each.channel = ${channel} and each.state = 'pending' limit ${manyWaiting}
            ) as counted
        )`.mapWith(Number),
        pauseMs: milliseconds(sql`${channels.nextAt} - now()`),
        ruleIds: rules.ruleIds,
        crm,
        chat,
      })
      .from(deliveries)
      .innerJoin(dealEvents, eq(dealEvents.id, deliveries.eventId))
      .innerJoin(channels, eq(channels.id, deliveries.channel))
      .leftJoin(rules, eq(rules.userId, deliveries.userId))
      .leftJoin(crm, eq(crm.id, crmOf(providers, deliveries.userId, dealEvents.crm)))
      .leftJoin(chat, eq(chat.id, chatOf(providers, deliveries.userId, sql`id`)))
      .where(
        and(
          eq(deliveries.channel, channel),
          eq(deliveries.state, 'pending'),
          notInArray(deliveries.userId, waitingUsers),
        ),
      )
      .orderBy(deliveries.occurredAt, deliveries.id)
      .limit(1)
    if (row === undefined) {
      return waitingUsers.length === 0 ? { kind: 'nothing' } : { kind: 'wait', ms: waitMs }
    }
    if (row.waitMs <= 0) {
      const channelFreeAt = performance.now() + row.pauseMs
      const receivedAtMs = askedAt - row.ageMs
      const ruleIds = row.ruleIds ?? []
      const delivery = { ...row, channel, channelFreeAt, receivedAtMs, ruleIds }
      return { kind: 'delivery', delivery }
    }
    waitingUsers.push(row.userId)
    waitMs = Math.min(waitMs, row.waitMs)
  }
}

/** The most deliveries that one call of `deliveriesFrom` returns. */
const mostAtOnce = 200

interface UpcomingDelivery extends Delivery {
  /**
   * What the list shows of this change, if another user's message has already reported it in this channel.
   * Otherwise null.
   */
  said: Shown | null
}

export interface Page {
  deliveries: UpcomingDelivery[]
  /** Whether there may be further deliveries after these. */
  more: boolean
}

/**
 * Returns the next deliveries that may be sent together with `first`, which starts the first page: those
 * of its user, in their order. If a process died while it sent a message, `first` belongs to that
 * message, and the page has the rest of it and nothing else. So Slack may get one message twice, but not
 * its parts in other messages.
 */
export async function deliveriesFrom(
  database: Database,
  first: Delivery,
  after: Delivery | undefined,
): Promise<Page> {
  const askedAt = Date.now()
  const rows = await database
    .select({
      ...deliveryAndEvent,
      said: sql<Shown | null>`(
        select json_strip_nulls(json_build_object(
          'ruleId', twin.rule_id, 'dealName', twin.deal_name, 'dealUrl', twin.deal_url,
          'from', twin.from_label, 'to', twin.to_label
        ))
        from deliveries twin
        where twin.event_id = ${deliveries.eventId} and twin.channel = ${first.channel}
          and twin.id <> ${deliveries.id} and twin.state = 'sent'
        limit 1
      )`,
    })
    .from(deliveries)
    .innerJoin(dealEvents, eq(dealEvents.id, deliveries.eventId))
    .where(
      and(
        eq(deliveries.channel, first.channel),
        eq(deliveries.state, 'pending'),
        eq(deliveries.userId, first.userId),
        first.claimedUntil === null
          ? undefined
          : sql`${deliveries.sendingUntil} = ${first.claimedUntil}::timestamptz`,
        after &&
          sql`(${deliveries.occurredAt}, ${deliveries.id}) >
              (${after.occurredAt.toISOString()}::timestamptz, ${after.id}::bigint)`,
      ),
    )
    .orderBy(deliveries.occurredAt, deliveries.id)
    .limit(mostAtOnce)
  const firstThatWaits = rows.findIndex(
    (row) =>
      row.waitMs > 0 ||
      row.claimedUntil !== first.claimedUntil ||
      row.crmId !== first.crmId ||
      row.accountId !== first.accountId,
  )
  const ready = firstThatWaits === -1 ? rows : rows.slice(0, firstThatWaits)
  return {
    deliveries: ready.map((row) => ({ ...first, ...row, receivedAtMs: askedAt - row.ageMs })),
    more: ready.length === mostAtOnce,
  }
}

/** The condition that nobody is sending a delivery. */
const isUnclaimed = sql`(sending_until is null or sending_until <= clock_timestamp())`

const idsOf = (group: readonly Delivery[]) => sql`${sql.param(group.map(({ id }) => id))}::bigint[]`

/**
 * The condition that a delivery is in the group and pending. PGlite has no statistics: with a plain
 * `state = 'pending'`, its planner would read the whole index of pending deliveries.
 */
const isPendingIn = (group: readonly Delivery[]) =>
  sql`id = any(${idsOf(group)}) and state || '' = 'pending'`

/** What the list of messages shows of these deliveries, as a table `item`. */
const shownItems = (group: readonly Delivery[]) =>
  sql`json_to_recordset(${JSON.stringify(
    group.map(({ id, shown }) => ({ delivery: id, ...shown })),
  )}::json) as item(delivery bigint, "ruleId" text, "dealName" text, "dealUrl" text, "from" text, "to" text)`

/**
 * Stores what the list of messages shows. A later try may know less than an earlier one, so a missing
 * value does not replace a stored one.
 */
const setShown = sql`
  deal_name = coalesce(item."dealName", deal_name), deal_url = coalesce(item."dealUrl", deal_url),
  from_label = coalesce(item."from", from_label), to_label = coalesce(item."to", to_label)`

/**
 * The rule of each delivery. If this try does not know it: the stored rule. A claim does not store it: the rule is in an index, and a
 * change of an indexed column makes PostgreSQL write to all indexes of the table.
 */
const ruleOf = (group: readonly Delivery[]) => sql`coalesce(
  (${sql.param(group.map(({ shown }) => shown?.ruleId ?? null))}::text[])[
    array_position(${idsOf(group)}, ${deliveries.id})], rule_id)`

/**
 * The deliveries of a group that this process may change, as a table `owned`: those that are pending and that
 * nobody has claimed since the process read or claimed them. The process must hold the lease of their channel,
 * or its claim must still last. The rows are locked in one order. Otherwise two statements could wait for each
 * other.
 */
const owned = (owner: string, group: readonly [Delivery, ...Delivery[]]) => sql`
  lease as materialized (
    ${leaseOf(owner, group[0].channel)}
  ), owned as materialized (
    select id from deliveries
    where ${isPendingIn(group)} and channel = ${group[0].channel}
      and sending_until is not distinct from ${group[0].claimedUntil}::timestamptz
      and (exists (select from lease) or sending_until > clock_timestamp())
    order by id for update
  )`

/** Selects the channel if `owner` has its lease. */
const leaseOf = (owner: string, channel: string) =>
  sql`select id from channels where id = ${channel} and leased_by = ${owner}`

export type Claim =
  | {
      kind: 'send'
      /** The end of the claim. */
      claimedUntil: string
      /** Whether the claim is new enough for a post that begins now. */
      mayPost: () => boolean
    }
  | { kind: 'wait'; ms: number }
  /** Another call has sent or ended the delivery, or its user has disconnected. */
  | { kind: 'gone' }
  /** This process no longer holds the channel's lease. */
  | { kind: 'lease lost' }
  /** Another user of the same channel has already received this event there. */
  | { kind: 'sent already' }

/**
 * Claims the channel's next second for a message about these deliveries of one user, right before the
 * call to the chat. Both connections must still exist and work, and no new one may have replaced them. One statement does all of this, for all
 * deliveries or for none:
 * - It checks the lease on the locked row, so a process that lost the lease cannot send.
 * - It locks the connections. So a disconnect either comes before the claim, or waits until the
 *   message is sent.
 * - It checks the twins: the deliveries of the same events to other users of the same channel.
 */
export async function claim(
  database: Pick<Database, 'execute'>,
  owner: string,
  group: readonly [Delivery, ...Delivery[]],
  used: readonly [Connection, Connection],
): Promise<Claim> {
  const { channel, chat } = group[0]
  const ids = idsOf(group)
  const eventIds = sql`${sql.param(group.map(({ eventId }) => eventId))}::bigint[]`
  const isFree = sql`${isPendingIn(group)} and ${isUnclaimed}`
  const elapsedMs = stopwatch()
  const [row] = await rowsOf<{
    claimed: boolean
    claimed_until: string
    connected: boolean
    twin_sent: boolean | null
    wait_ms: string | null
  }>(
    database,
    // Use clock_timestamp(). now() is the start of the statement, before it waited for locks.
    sql`with clock as materialized (
          select clock_timestamp() + make_interval(secs => ${sendingSeconds}) as claimed_until
        ), own as (
          select id from connections
          where broken_since is null and (
            ${or(...used.map(({ id, connectedAt }) => and(eq(connections.id, id), eq(connections.connectedAt, connectedAt))))}
          ) for share
        ), connected as (
          select count(*) = 2 as yes from own
        ), free as (
          select count(*) = ${group.length} as yes from deliveries where ${isFree}
        ), twin as (
          select bool_or(state = 'sent') as sent from deliveries
          where event_id = any(${eventIds}) and channel = ${channel} and id <> all(${ids})
            and (state = 'sent' or sending_until > clock_timestamp())
        ), slot as (
          ${pause(channel, chat?.channelName)} and leased_by = ${owner} and next_at <= clock_timestamp()
            and (select yes from connected) and (select yes from free)
            and (select sent is null from twin)
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
               (select sent from twin) as twin_sent,
               (select extract(epoch from next_at - clock_timestamp()) * 1000
                from channels where id = ${channel} and leased_by = ${owner}) as wait_ms`,
  )
  if (row === undefined || row.wait_ms === null) return { kind: 'lease lost' }
  if (row.claimed) {
    const { claimed_until: claimedUntil } = row
    return { kind: 'send', claimedUntil, mayPost: () => elapsedMs() < postWithinMs }
  }
  if (!row.connected) return { kind: 'gone' }
  if (row.twin_sent === true) return { kind: 'sent already' }
  // Another call is sending the twin. If its process has died, the twin's claim ends by itself.
  if (row.twin_sent === false) return { kind: 'wait', ms: retryClaimMs }
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

/** The wait before the next claim while another call is sending the twin. */
const retryClaimMs = 1_000

/**
 * Records a message that the chat accepted, also if the process has lost lease and claim: the message must
 * not be sent again. The pause of the channel starts now.
 * @returns whether the channel has another pending delivery.
 */
export async function recordSent(
  database: Database,
  group: readonly [Delivery, ...Delivery[]],
): Promise<boolean> {
  const { channel } = group[0]
  const [row] = await rowsOf<{ more: boolean }>(
    database,
    sql`with paused as (
          ${pause(channel)} returning id
        ), sent as (
          update deliveries
          set state = 'sent', reason = null, finished_at = now(), sending_until = null,
              attempts = attempts + 1, rule_id = ${ruleOf(group)}
          -- Lock the channel first, as the claim does.
          where ${isPendingIn(group)} and (select count(*) from paused) >= 0
        )
        select exists (
          select from deliveries
          where channel = ${channel} and state = 'pending' and id <> all(${idsOf(group)})
        ) as more`,
  )
  return row?.more ?? false
}

/**
 * Ends deliveries without a message. Set `countTry` after a failed try.
 * @returns whether this process still has the lease of the channel. Otherwise it may have changed nothing.
 */
export async function recordEnd(
  database: Database,
  owner: string,
  group: readonly [Delivery, ...Delivery[]],
  { state, reason, countTry }: { state: 'dead' | 'ignored'; reason: string; countTry: boolean },
): Promise<boolean> {
  return await hasLease(
    database,
    sql`with ${owned(owner, group)}, changed as (
          update deliveries
          set state = ${state}, reason = ${reason}, finished_at = now(), sending_until = null,
              attempts = attempts + ${Number(countTry)}::int,
              rule_id = coalesce(item."ruleId", rule_id), ${setShown}
          from ${shownItems(group)}
          where id = item.delivery and id = any(array(select id from owned))
        )
        select from lease`,
  )
}

/**
 * Postpones deliveries. Set `countTry` after a failed try.
 * @returns whether this process still has the lease of the channel. Otherwise it may have changed nothing.
 */
export async function postpone(
  database: Database,
  owner: string,
  group: readonly [Delivery, ...Delivery[]],
  { afterMs, reason, countTry }: { afterMs: number; reason: string | null; countTry: boolean },
): Promise<boolean> {
  return await hasLease(
    database,
    sql`with ${owned(owner, group)}, changed as (
          update deliveries
          set not_before = now() + make_interval(secs => ${afterMs / 1000}), reason = ${reason},
              sending_until = null, rule_id = ${ruleOf(group)},
              attempts = attempts + ${Number(countTry)}::int
          where id = any(array(select id from owned))
        )
        select from lease`,
  )
}

async function hasLease(database: Pick<Database, 'execute'>, query: SQL): Promise<boolean> {
  return (await rowsOf(database, query)).length > 0
}

/**
 * Records that the chat asked for a pause. It applies to the whole workspace, whoever has the lease. The try
 * does not count. @returns whether this process still has the lease of the channel.
 */
export async function recordRateLimit(
  database: Database,
  owner: string,
  group: readonly [Delivery, ...Delivery[]],
  waitMs: number,
): Promise<boolean> {
  await database.execute(pauseWorkspace(group[0].channel, waitMs))
  return await postpone(database, owner, group, {
    afterMs: 0,
    reason: 'rate_limited',
    countTry: false,
  })
}

/**
 * The first pending deliveries of a user in a channel that nobody is sending, a batch of them. Locks their
 * rows in the order in which `owned` does.
 */
const firstWaiting = ({ userId, channel }: Delivery, condition: SQL = sql`true`) => {
  const isWaiting = sql`state = 'pending' and ${isUnclaimed} and channel = ${channel}
    and user_id = ${userId} and ${condition}`
  return sql`(
    select id from deliveries
    where ${isWaiting} and id = any(array(
      select id from deliveries where ${isWaiting} order by occurred_at, id limit ${batchRows}
    ))
    order by id for update
  )`
}

/**
 * Moves the user's first pending deliveries from this channel to the one that the user chose later.
 * @returns whether this process has the lease of the old channel. Otherwise it changes nothing.
 */
export async function moveToChannel(
  database: Database,
  owner: string,
  delivery: Delivery,
  newChannel: string,
): Promise<boolean> {
  const { channel } = delivery
  return await database.transaction(async (tx) => {
    // This locks both channels in the order of all statements, so that the lease stays as it is.
    await makeDue(tx, [channel, newChannel])
    if (!(await hasLease(tx, leaseOf(owner, channel)))) return false
    await tx.execute(
      sql`update deliveries set channel = ${newChannel}
          where id = any(array${firstWaiting(delivery)})`,
    )
    return true
  })
}

/**
 * Ends the user's first pending deliveries of one CRM account in a channel, because a connection is broken. If
 * it works again meanwhile, ends none.
 * @returns how many it ended; undefined if this process no longer has the lease of the channel.
 */
export async function endBacklog(
  database: Database,
  owner: string,
  delivery: Delivery,
  broken: Connection,
): Promise<number | undefined> {
  const { channel, crmId, accountId } = delivery
  const isOfAccount = sql`(
    select crm || '/' || account_id from deal_events where deal_events.id = event_id
  ) = ${`${crmId}/${accountId}`}`
  const [row] = await rowsOf<{ ended: number }>(
    database,
    sql`with lease as materialized (
          ${leaseOf(owner, channel)}
        ), ended as (
          update deliveries
          set state = 'dead', reason = ${broken.brokenReason}, finished_at = now(), sending_until = null
          where exists (select from lease)
            and exists (select from connections where id = ${broken.id} and broken_since is not null)
            and id = any(array${firstWaiting(delivery, isOfAccount)})
          returning 1
        )
        select (select count(*)::int from ended) as ended from lease`,
  )
  return row?.ended
}

/** Ends the pending deliveries of a user who disconnects. Resolves when none is being sent. */
export async function stopSendingTo(database: Database, userId: string): Promise<void> {
  const isWaiting = sql`user_id = ${userId} and state = 'pending' and ${isUnclaimed}`
  for (;;) {
    await database.execute(
      sql`update deliveries set state = 'dead', reason = 'disconnected', finished_at = now()
          where id = any(array(select id from deliveries where ${isWaiting} order by id for update))`,
    )
    const sending = await database
      .select({ id: deliveries.id })
      .from(deliveries)
      .where(and(eq(deliveries.userId, userId), eq(deliveries.state, 'pending')))
      .limit(1)
    if (sending.length === 0) return
    await delay(50)
  }
}

/** Waits for the messages that are being sent to this user. Those that begin later do not count. */
export async function sendingEnded(database: Database, userId: string): Promise<void> {
  const isSending = and(
    eq(deliveries.userId, userId),
    eq(deliveries.state, 'pending'),
    sql`${deliveries.sendingUntil} > now()`,
  )
  const begun = await database.select({ id: deliveries.id }).from(deliveries).where(isSending)
  const isOfBegun = inArray(
    deliveries.id,
    begun.map(({ id }) => id),
  )
  while (begun.length > 0 && (await database.$count(deliveries, and(isSending, isOfBegun))) > 0) {
    await delay(50)
  }
}
