import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, inArray, notInArray, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { type Database, rowsOf } from '../database/open.ts'
import { channels, connections, dealEvents, deliveries, rules } from '../database/schema.ts'
import { lockChannels } from './inbox.ts'
import type { WakeQueue } from './wake-queue.ts'

/** Slack takes one message a second for a channel. */
const paceMs = 1_000

/** Longer than Slack may take, its second way included. */
const sendingSeconds = 12

export type Connection = typeof connections.$inferSelect

/** The next thing to say in a channel, with what it takes to say it. */
export interface Delivery {
  id: number
  eventId: number
  userId: string
  channel: string
  attempts: number
  portalId: string
  dealId: string
  stageId: string
  occurredAt: Date
  /** Since the webhook. */
  ageMs: number
  hubspot: Connection | null
  slack: Connection | null
  ruleIds: readonly string[]
}

export type Next =
  | { kind: 'delivery'; delivery: Delivery }
  | { kind: 'wait'; ms: number }
  | { kind: 'nothing' }

const hubspot = alias(connections, 'hubspot')
const slack = alias(connections, 'slack')
const milliseconds = (time: SQL) => sql<number>`extract(epoch from ${time}) * 1000`.mapWith(Number)

/**
 * The first pending delivery of a channel by time of occurrence. One that must wait holds back those
 * of the same user, whose order is kept, and not those of others.
 */
export async function nextDelivery(database: Database, channel: string): Promise<Next> {
  const held: string[] = []
  let waitMs = Number.POSITIVE_INFINITY
  for (;;) {
    const [row] = await database
      .select({
        id: deliveries.id,
        eventId: deliveries.eventId,
        userId: deliveries.userId,
        attempts: deliveries.attempts,
        portalId: dealEvents.portalId,
        dealId: dealEvents.dealId,
        stageId: dealEvents.stageId,
        occurredAt: dealEvents.occurredAt,
        ageMs: milliseconds(sql`now() - ${dealEvents.receivedAt}`),
        waitMs: milliseconds(
          sql`greatest(${deliveries.notBefore}, ${deliveries.sendingUntil}, now()) - now()`,
        ),
        ruleIds: rules.ruleIds,
        hubspot,
        slack,
      })
      .from(deliveries)
      .innerJoin(dealEvents, eq(dealEvents.id, deliveries.eventId))
      .leftJoin(rules, eq(rules.userId, deliveries.userId))
      .leftJoin(
        hubspot,
        and(eq(hubspot.userId, deliveries.userId), eq(hubspot.provider, 'hubspot')),
      )
      .leftJoin(slack, and(eq(slack.userId, deliveries.userId), eq(slack.provider, 'slack')))
      .where(
        and(
          eq(deliveries.channel, channel),
          eq(deliveries.state, 'pending'),
          notInArray(deliveries.userId, held),
        ),
      )
      .orderBy(deliveries.occurredAt, deliveries.id)
      .limit(1)
    if (row === undefined) {
      return held.length === 0 ? { kind: 'nothing' } : { kind: 'wait', ms: waitMs }
    }
    if (row.waitMs <= 0) {
      return { kind: 'delivery', delivery: { ...row, channel, ruleIds: row.ruleIds ?? [] } }
    }
    held.push(row.userId)
    waitMs = Math.min(waitMs, row.waitMs)
  }
}

/**
 * Resolves when the transactions that were adding to one of the channels have ended. Whoever takes a
 * job waits for them: one that found the job waiting made none of its own, and relies on this one.
 */
export async function waitForAdded(database: Database, channelIds: string[]): Promise<void> {
  await database
    .select({ id: channels.id })
    .from(channels)
    .where(inArray(channels.id, channelIds))
    .orderBy(channels.id)
    .for('share')
}

export type Claim =
  | { kind: 'go' }
  | { kind: 'wait'; ms: number }
  /** Sent or ended by someone else, or its user has disconnected. */
  | { kind: 'gone' }
  /** Another user of the same channel was told already. */
  | { kind: 'said' }

/**
 * Takes the channel's next second for this delivery, right before Slack is called. The connections
 * are locked for the moment, so that a disconnect comes either before, or waits for the call.
 */
export async function claim(
  database: Database,
  { id, eventId, userId, channel }: Delivery,
): Promise<Claim> {
  return await database.transaction(async (tx) => {
    const [locked] = await rowsOf<{ wait_ms: string; connections: string }>(
      tx,
      sql`with slot as (
            select next_at from channels where id = ${channel} for update
          ), own as (
            select id from connections
            where user_id = ${userId} and broken_since is null for share
          )
          select extract(epoch from (select next_at from slot) - clock_timestamp()) * 1000 as wait_ms,
                 (select count(*) from own) as connections`,
    )
    const waitMs = Number(locked?.wait_ms)
    if (waitMs > 0) return { kind: 'wait', ms: waitMs }
    if (Number(locked?.connections) < 2) return { kind: 'gone' }

    const [claimed] = await rowsOf<{ said: boolean | null; going: boolean }>(
      tx,
      // The clock's time: now() is that of the transaction's begin, before it waited for the locks.
      sql`with twin as (
            select state from deliveries
            where event_id = ${eventId} and channel = ${channel} and id <> ${id}
              and (state = 'sent' or sending_until > clock_timestamp())
          ), claimed as (
            update deliveries
            set attempts = attempts + 1,
                sending_until = clock_timestamp() + make_interval(secs => ${sendingSeconds})
            where id = ${id} and state = 'pending'
              and (sending_until is null or sending_until <= clock_timestamp())
              and not exists (select from twin)
            returning id
          ), held as (
            ${holdChannel(channel, paceMs)} and exists (select from claimed)
          )
          select (select bool_or(state = 'sent') from twin) as said,
                 exists (select from claimed) as going`,
    )
    if (claimed?.said === true) return { kind: 'said' }
    // Being said, perhaps by a process that died on the way: that is known when its time is over.
    if (claimed?.said === false) return { kind: 'wait', ms: paceMs }
    return { kind: claimed?.going ? 'go' : 'gone' }
  })
}

/**
 * Notes a message that Slack took, and counts the channel's second from now.
 * @returns whether more is pending in the channel.
 */
export async function noteSent(database: Database, { id, channel }: Delivery): Promise<boolean> {
  const [row] = await rowsOf<{ more: boolean }>(
    database,
    sql`with sent as (
          update deliveries
          set state = 'sent', reason = null, finished_at = now(), sending_until = null
          where id = ${id} and state = 'pending'
        ), held as (
          ${holdChannel(channel, paceMs)}
        )
        select exists (
          select from deliveries where channel = ${channel} and state = 'pending' and id <> ${id}
        ) as more`,
  )
  return row?.more ?? false
}

/** Ends a delivery without a message. */
export async function noteEnd(
  database: Database,
  { id }: Delivery,
  state: 'dead' | 'ignored',
  reason: string,
): Promise<void> {
  await database
    .update(deliveries)
    .set({ state, reason, finishedAt: sql`now()`, sendingUntil: null })
    .where(and(eq(deliveries.id, id), eq(deliveries.state, 'pending')))
}

/** Puts a delivery off; `countTry` is for a try that no claim has counted. */
export async function noteLater(
  database: Database,
  { id }: Delivery,
  { afterMs, reason, countTry }: { afterMs: number; reason: string | null; countTry: boolean },
): Promise<void> {
  await database
    .update(deliveries)
    .set({
      notBefore: sql`now() + make_interval(secs => ${afterMs / 1000})`,
      reason,
      sendingUntil: null,
      ...(countTry && { attempts: sql`${deliveries.attempts} + 1` }),
    })
    .where(and(eq(deliveries.id, id), eq(deliveries.state, 'pending')))
}

/** Slack asked for a longer wait: it holds for this channel alone, and the try does not count. */
export async function noteRateLimit(
  database: Database,
  { id, channel }: Delivery,
  waitMs: number,
): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.execute(holdChannel(channel, waitMs))
    await tx
      .update(deliveries)
      .set({
        sendingUntil: null,
        reason: 'rate_limited',
        attempts: sql`${deliveries.attempts} - 1`,
      })
      .where(and(eq(deliveries.id, id), eq(deliveries.state, 'pending')))
  })
}

function holdChannel(channel: string, forMs: number): SQL {
  return sql`update channels
             set next_at = greatest(next_at, clock_timestamp() + make_interval(secs => ${forMs / 1000}))
             where id = ${channel}`
}

/** The user has chosen another channel: what is pending goes there. */
export async function moveToChannel(
  { database, queue }: { database: Database; queue: WakeQueue },
  { userId, channel }: Delivery,
  newChannel: string,
): Promise<void> {
  await database.transaction(async (tx) => {
    await lockChannels(tx, [...new Set([channel, newChannel])])
    await tx
      .update(deliveries)
      .set({ channel: newChannel })
      .where(
        and(
          eq(deliveries.userId, userId),
          eq(deliveries.channel, channel),
          eq(deliveries.state, 'pending'),
        ),
      )
    await queue.wake([newChannel], { within: tx })
  })
}

/** Ends what is pending for a user who disconnects, and resolves when nothing is being sent. */
export async function stopSendingTo(database: Database, userId: string): Promise<void> {
  for (;;) {
    await database
      .update(deliveries)
      .set({ state: 'dead', reason: 'disconnected', finishedAt: sql`now()` })
      .where(
        and(
          eq(deliveries.userId, userId),
          eq(deliveries.state, 'pending'),
          sql`(${deliveries.sendingUntil} is null or ${deliveries.sendingUntil} <= now())`,
        ),
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
