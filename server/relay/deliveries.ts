import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, isNull, or, sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../database/open.ts'
import { connections, deliveries } from '../database/schema.ts'
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
  hubspot: Connection | undefined
  slack: Connection | undefined
  ruleIds: readonly string[]
}

export type Next =
  | { kind: 'delivery'; delivery: Delivery }
  | { kind: 'wait'; ms: number }
  | { kind: 'nothing' }

interface NextRow {
  id: string
  event: string
  user: string
  attempts: number
  portal: string
  deal: string
  stage: string
  occurred_ms: string
  age_ms: string
  wait_ms: string | null
  rules: string[] | null
}

/**
 * The first pending delivery of a channel by time of occurrence. One that must wait holds back those
 * of the same user, whose order is kept, and not those of others.
 */
export async function nextDelivery(database: Database, channel: string): Promise<Next> {
  const held: string[] = []
  let waitMs = Number.POSITIVE_INFINITY
  for (;;) {
    const [row] = await rowsOf<NextRow>(
      database,
      sql`select d.id, d.event_id as event, d.user_id as "user", d.attempts,
                 e.portal_id as portal, e.deal_id as deal, e.stage_id as stage,
                 extract(epoch from e.occurred_at) * 1000 as occurred_ms,
                 extract(epoch from now() - e.received_at) * 1000 as age_ms,
                 extract(epoch from greatest(d.not_before, d.sending_until) - now()) * 1000 as wait_ms,
                 r.rule_ids as rules
          from deliveries d
          join deal_events e on e.id = d.event_id
          left join rules r on r.user_id = d.user_id
          where d.channel = ${channel} and d.state = 'pending'
            and d.user_id <> all(${sql.param(held)}::uuid[])
          order by d.occurred_at, d.id
          limit 1`,
    )
    if (row === undefined) {
      return held.length === 0 ? { kind: 'nothing' } : { kind: 'wait', ms: waitMs }
    }
    const rowWaitMs = Number(row.wait_ms ?? 0)
    if (rowWaitMs > 0) {
      held.push(row.user)
      waitMs = Math.min(waitMs, rowWaitMs)
      continue
    }
    const own = await database.select().from(connections).where(eq(connections.userId, row.user))
    return {
      kind: 'delivery',
      delivery: {
        id: Number(row.id),
        eventId: Number(row.event),
        userId: row.user,
        channel,
        attempts: row.attempts,
        portalId: row.portal,
        dealId: row.deal,
        stageId: row.stage,
        occurredAt: new Date(Number(row.occurred_ms)),
        ageMs: Number(row.age_ms),
        hubspot: own.find(({ provider }) => provider === 'hubspot'),
        slack: own.find(({ provider }) => provider === 'slack'),
        ruleIds: row.rules ?? [],
      },
    }
  }
}

/** Whether nothing is pending, seen under the lock that whoever adds something holds. */
export async function isEmptyUnderLock(database: Database, channel: string): Promise<boolean> {
  return await database.transaction(async (tx) => {
    await lockChannels(tx, [channel])
    const [pending] = await tx
      .select({ id: deliveries.id })
      .from(deliveries)
      .where(and(eq(deliveries.channel, channel), eq(deliveries.state, 'pending')))
      .limit(1)
    return pending === undefined
  })
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
    const [slot] = await rowsOf<{ wait_ms: string }>(
      tx,
      sql`select extract(epoch from next_at - clock_timestamp()) * 1000 as wait_ms
          from channels where id = ${channel} for update`,
    )
    const waitMs = Number(slot?.wait_ms ?? 0)
    if (waitMs > 0) return { kind: 'wait', ms: waitMs }

    const own = await tx
      .select({ id: connections.id })
      .from(connections)
      .where(and(eq(connections.userId, userId), isNull(connections.brokenSince)))
      .for('share')
    if (own.length < 2) return { kind: 'gone' }

    const [twin] = await rowsOf<{ id: string }>(
      tx,
      sql`select id from deliveries
          where event_id = ${eventId} and channel = ${channel} and id <> ${id}
            and (state = 'sent' or sending_until > now())`,
    )
    if (twin !== undefined) return { kind: 'said' }

    const [claimed] = await tx
      .update(deliveries)
      .set({
        attempts: sql`${deliveries.attempts} + 1`,
        sendingUntil: sql`now() + make_interval(secs => ${sendingSeconds})`,
      })
      .where(
        and(
          eq(deliveries.id, id),
          eq(deliveries.state, 'pending'),
          or(isNull(deliveries.sendingUntil), sql`${deliveries.sendingUntil} <= now()`),
        ),
      )
      .returning({ id: deliveries.id })
    if (claimed === undefined) return { kind: 'gone' }
    await holdChannel(tx, channel, paceMs)
    return { kind: 'go' }
  })
}

/** Notes a message that Slack took, and counts the channel's second from now. */
export async function noteSent(database: Database, { id, channel }: Delivery): Promise<void> {
  await database.execute(
    sql`with sent as (
          update deliveries
          set state = 'sent', reason = null, finished_at = now(), sending_until = null
          where id = ${id} and state = 'pending'
        )
        update channels set next_at = greatest(next_at, clock_timestamp() + make_interval(secs => ${paceMs / 1000}))
        where id = ${channel}`,
  )
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

/** Puts a delivery off; `failed` says that the try counts. */
export async function noteLater(
  database: Database,
  { id }: Delivery,
  { afterMs, reason, failed }: { afterMs: number; reason: string | null; failed: boolean },
): Promise<void> {
  await database
    .update(deliveries)
    .set({
      notBefore: sql`now() + make_interval(secs => ${afterMs / 1000})`,
      reason,
      sendingUntil: null,
      ...(failed && { attempts: sql`${deliveries.attempts} + 1` }),
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
    await holdChannel(tx, channel, waitMs)
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

async function holdChannel(
  tx: Pick<Database, 'execute'>,
  channel: string,
  forMs: number,
): Promise<void> {
  await tx.execute(
    sql`update channels set next_at = greatest(next_at, clock_timestamp() + make_interval(secs => ${forMs / 1000}))
        where id = ${channel}`,
  )
}

/** The user has chosen another channel: what is pending goes there. */
export async function moveToChannel(
  { database, queue }: { database: Database; queue: WakeQueue },
  { userId, channel }: Delivery,
  newChannel: string,
): Promise<void> {
  await database.transaction(async (tx) => {
    await lockChannels(tx, [...new Set([channel, newChannel])].sort())
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
