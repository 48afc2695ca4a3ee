// `pick/` gets a channel that this process leases. It returns the first delivery that need not wait (this file), and
// then those after it that the same message may cover (following.ts). It keeps the order of each user's deliveries.
// It changes nothing.

import { and, eq, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { pausedUntil } from '../../database/clock.ts'
import { type Database, rowsOf } from '../../database/open.ts'
import {
  channels,
  connections,
  crmAccounts,
  dealEvents,
  deliveries,
  rules,
} from '../../database/schema.ts'
import { chatOf, crmOf } from '../../people/routes.ts'
import { channelLooks } from '../../watch/metrics.ts'
import { type Delivery, deliveryAndEvent, fewestInDigest, milliseconds } from './delivery.ts'

export type Next =
  | { kind: 'delivery'; delivery: Delivery }
  /** `failing`: because a try has failed. */
  | { kind: 'wait'; ms: number; failing: boolean }
  | { kind: 'nothing' }

const crm = alias(connections, 'crm')
const chat = alias(connections, 'chat')

/**
 * The SQL of the first pending delivery of each user of a channel, as a table `head`. It takes one look at an index for
 * each user, however much waits behind the first one.
 */
const headsOf = (channel: string) => {
  const firstAfter = (condition: SQL) => sql`(
    select user_id, id, occurred_at, attempts, (${deliveryAndEvent.waitMs})::float8 as wait_ms from ${deliveries}
    where channel = ${channel} and state = 'pending' and ${condition}
    order by user_id, occurred_at, id limit 1)`
  return sql`recursive head as (
    ${firstAfter(sql`true`)}
    union all
    select next.* from head cross join lateral ${firstAfter(sql`user_id > head.user_id`)} as next)`
}

/**
 * Returns the first pending delivery of a channel that need not wait, by time of occurrence. If a
 * delivery must wait, later deliveries of the same user wait too, so that their order is kept.
 * Deliveries of other users do not wait.
 */
export async function nextDelivery(database: Database, channel: string): Promise<Next> {
  channelLooks.inc()
  const firstId = database
    .select({ id: deliveries.id })
    .from(deliveries)
    .where(and(eq(deliveries.channel, channel), eq(deliveries.state, 'pending')))
    .orderBy(deliveries.occurredAt, deliveries.id)
    .limit(1)
  for (;;) {
    const first = await readDelivery(database, channel, sql`(${firstId})`)
    if (first === undefined) return { kind: 'nothing' }
    if (first.waitMs <= 0) return { kind: 'delivery', delivery: first }
    const [found] = await rowsOf<{ free: string | null; ms: number | null; failing: boolean }>(
      database,
      sql`with ${headsOf(channel)}
          select (select id::text from head where wait_ms <= 0 order by occurred_at, id limit 1) as free,
                 min(wait_ms) as ms, coalesce(bool_or(attempts > 0), false) as failing
          from head`,
    )
    if (found?.free) {
      const delivery = await readDelivery(database, channel, sql`${found.free}`)
      if (delivery !== undefined) return { kind: 'delivery', delivery }
    } else if (found?.ms) return { kind: 'wait', ms: found.ms, failing: found.failing }
  }
}

/** Reads a delivery with all that decides about it; undefined if it is no longer pending. */
async function readDelivery(
  database: Database,
  channel: string,
  id: SQL,
): Promise<(Delivery & { waitMs: number }) | undefined> {
  const askedAt = performance.now()
  const [row] = await database
    .select({
      ...deliveryAndEvent,
      userId: deliveries.userId,
      isPaused: sql<boolean>`exists (
        select from ${crmAccounts} as account
        where account.crm = ${dealEvents.crm} and account.account_id = ${dealEvents.accountId}
          and account.paused_at is not null
      )`,
      pendingInChannel: sql`(
        select count(*) from (
          select from ${deliveries} as each
          where each.channel = ${channel} and each.state = 'pending' limit ${fewestInDigest}
        ) as counted
      )`.mapWith(Number),
      pauseMs: milliseconds(sql`coalesce(${pausedUntil(channels)}, now()) - now()`),
      ruleIds: rules.ruleIds,
      crm,
      chat,
    })
    .from(deliveries)
    .innerJoin(dealEvents, eq(dealEvents.id, deliveries.eventId))
    .innerJoin(channels, eq(channels.id, deliveries.channel))
    .leftJoin(rules, eq(rules.userId, deliveries.userId))
    .leftJoin(crm, eq(crm.id, crmOf(deliveries.userId, dealEvents.crm)))
    .leftJoin(chat, eq(chat.id, chatOf(deliveries.userId, sql`id`)))
    .where(and(eq(deliveries.id, id), eq(deliveries.state, 'pending')))
  if (row === undefined) return undefined
  const channelFreeAt = performance.now() + row.pauseMs
  const receivedAtMs = askedAt - row.ageMs
  return { ...row, channel, channelFreeAt, receivedAtMs, ruleIds: row.ruleIds ?? [] }
}
