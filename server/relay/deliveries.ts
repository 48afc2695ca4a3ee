import { setTimeout as delay } from 'node:timers/promises'
import { and, desc, eq, inArray, notInArray, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { type Database, rowsOf } from '../database/open.ts'
import { channels, connections, dealEvents, deliveries, rules } from '../database/schema.ts'
import { type Connection, isOfConfigured } from '../people/connections.ts'
import type { Providers } from '../providers/provider.ts'
import { type CrmId, chatIds, type DealProperty } from '../providers/registry.ts'
import { makeDue, pause } from './channels.ts'

/** How long a message may be on its way. Longer than Slack may take for both ways of posting. */
const sendingSeconds = 12

/** The next thing to send in a channel, with what it takes to send it. */
export interface Delivery {
  id: number
  eventId: number
  userId: string
  channel: string
  attempts: number
  crmId: CrmId
  accountId: string
  dealId: string
  property: DealProperty
  value: string
  occurredAt: Date
  /** Since the webhook. */
  ageMs: number
  /** When the channel takes its next message, by `performance.now()`. */
  channelFreeAt: number
  crm: Connection | null
  chat: Connection | null
  ruleIds: readonly string[]
}

export type Next =
  | { kind: 'delivery'; delivery: Delivery }
  | { kind: 'wait'; ms: number }
  | { kind: 'nothing' }

const crm = alias(connections, 'crm')
const chat = alias(connections, 'chat')
const milliseconds = (time: SQL) => sql<number>`extract(epoch from ${time}) * 1000`.mapWith(Number)

/**
 * The first pending delivery of a channel by time of occurrence. A delivery that must wait holds back
 * later ones of the same user, so their order is kept, but not those of other users.
 */
export async function nextDelivery(
  database: Database,
  providers: Providers,
  channel: string,
): Promise<Next> {
  const held: string[] = []
  let waitMs = Number.POSITIVE_INFINITY
  for (;;) {
    const [row] = await database
      .select({
        id: deliveries.id,
        eventId: deliveries.eventId,
        userId: deliveries.userId,
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
        pauseMs: milliseconds(sql`${channels.nextAt} - now()`),
        ruleIds: rules.ruleIds,
        crm,
        chat,
      })
      .from(deliveries)
      .innerJoin(dealEvents, eq(dealEvents.id, deliveries.eventId))
      .innerJoin(channels, eq(channels.id, deliveries.channel))
      .leftJoin(rules, eq(rules.userId, deliveries.userId))
      .leftJoin(
        crm,
        and(
          eq(crm.userId, deliveries.userId),
          eq(crm.provider, dealEvents.crm),
          isOfConfigured(providers, crm),
        ),
      )
      .leftJoin(
        chat,
        and(
          eq(chat.userId, deliveries.userId),
          inArray(chat.provider, [...chatIds]),
          isOfConfigured(providers, chat),
        ),
      )
      .where(
        and(
          eq(deliveries.channel, channel),
          eq(deliveries.state, 'pending'),
          notInArray(deliveries.userId, held),
        ),
      )
      // A user may have connected more than one chat. The last one counts.
      .orderBy(deliveries.occurredAt, deliveries.id, desc(chat.connectedAt))
      .limit(1)
    if (row === undefined) {
      return held.length === 0 ? { kind: 'nothing' } : { kind: 'wait', ms: waitMs }
    }
    if (row.waitMs <= 0) {
      const channelFreeAt = performance.now() + row.pauseMs
      const delivery = { ...row, channel, channelFreeAt, ruleIds: row.ruleIds ?? [] }
      return { kind: 'delivery', delivery }
    }
    held.push(row.userId)
    waitMs = Math.min(waitMs, row.waitMs)
  }
}

export type Claim =
  | { kind: 'send' }
  | { kind: 'wait'; ms: number }
  /** Sent or ended elsewhere, or its user has disconnected. */
  | { kind: 'gone' }
  /** This process no longer holds the channel's lease. */
  | { kind: 'lease lost' }
  /** Another user of the same channel has already received this event there. */
  | { kind: 'sent already' }

/**
 * Claims the channel's next second for this delivery, right before the chat is called, if both
 * connections are still there. One statement:
 * - The lease is checked on the locked row, so a process that lost it cannot send.
 * - The connections are locked for the moment. A disconnect either comes before the claim or waits
 *   until the message is sent.
 */
export async function claim(
  database: Pick<Database, 'execute'>,
  owner: string,
  { id, eventId, channel }: Delivery,
  connectionIds: readonly [string, string],
): Promise<Claim> {
  const [row] = await rowsOf<{
    claimed: boolean
    connected: boolean
    twin_sent: boolean | null
    wait_ms: string | null
  }>(
    database,
    // clock_timestamp(), because now() is when the statement began, before it waited for locks.
    sql`with own as (
          select id from connections
          where id in (${connectionIds[0]}, ${connectionIds[1]}) and broken_since is null for share
        ), connected as (
          select count(*) = 2 as yes from own
        ), twin as (
          select bool_or(state = 'sent') as sent from deliveries
          where event_id = ${eventId} and channel = ${channel} and id <> ${id}
            and (state = 'sent' or sending_until > clock_timestamp())
        ), slot as (
          ${pause(channel)} and leased_by = ${owner} and next_at <= clock_timestamp()
            and (select yes from connected) and (select sent is null from twin)
          returning id
        ), claimed as (
          update deliveries
          set attempts = attempts + 1,
              sending_until = clock_timestamp() + make_interval(secs => ${sendingSeconds})
          where id = ${id} and state = 'pending'
            and (sending_until is null or sending_until <= clock_timestamp())
            and exists (select from slot)
          returning id
        )
        select exists (select from claimed) as claimed,
               (select yes from connected) as connected,
               (select sent from twin) as twin_sent,
               (select extract(epoch from next_at - clock_timestamp()) * 1000
                from channels where id = ${channel} and leased_by = ${owner}) as wait_ms`,
  )
  if (row === undefined || row.wait_ms === null) return { kind: 'lease lost' }
  if (row.claimed) return { kind: 'send' }
  if (!row.connected) return { kind: 'gone' }
  if (row.twin_sent === true) return { kind: 'sent already' }
  // The twin is on its way, perhaps from a process that died. That is known when its time is over.
  if (row.twin_sent === false) return { kind: 'wait', ms: retryClaimMs }
  const waitMs = Number(row.wait_ms)
  return waitMs > 0 ? { kind: 'wait', ms: waitMs } : { kind: 'gone' }
}

/** How soon a claim is tried again while a twin of the delivery is on its way. */
const retryClaimMs = 1_000

/**
 * Records a message that the chat accepted. The channel's pace counts from now.
 * @returns whether more is pending in the channel.
 */
export async function recordSent(database: Database, { id, channel }: Delivery): Promise<boolean> {
  const [row] = await rowsOf<{ more: boolean }>(
    database,
    sql`with sent as (
          update deliveries
          set state = 'sent', reason = null, finished_at = now(), sending_until = null
          where id = ${id} and state = 'pending'
        ), paused as (
          ${pause(channel)}
        )
        select exists (
          select from deliveries where channel = ${channel} and state = 'pending' and id <> ${id}
        ) as more`,
  )
  return row?.more ?? false
}

/** Ends a delivery without a message. */
export async function recordEnd(
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

/** Postpones a delivery. `countTry` counts a try that no claim has counted. */
export async function postpone(
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

/** The chat asked for a pause. It holds for the whole channel, and the try does not count. */
export async function recordRateLimit(
  database: Database,
  { id, channel }: Delivery,
  waitMs: number,
): Promise<void> {
  await database.execute(
    sql`with paused as (${pause(channel, waitMs)})
        update deliveries
        set sending_until = null, reason = 'rate_limited', attempts = attempts - 1
        where id = ${id} and state = 'pending'`,
  )
}

/** Moves what is pending to the channel that the user has chosen now. */
export async function moveToChannel(
  database: Database,
  { userId, channel }: Delivery,
  newChannel: string,
): Promise<void> {
  await database.transaction(async (tx) => {
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
    await makeDue(tx, [newChannel])
  })
}

/** Ends what is pending for a user who disconnects. Resolves when nothing is being sent any more. */
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
