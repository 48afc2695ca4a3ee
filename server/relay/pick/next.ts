// `pick/` gets a channel that this process leases. It returns the first delivery that need not wait (this file), and
// then those after it that the same message may cover (following.ts). It keeps the order of each user's deliveries.
// It changes nothing.

import { and, eq, type SQL, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { pausedUntil } from '../../database/clock.ts'
import { type Database, rowsOf } from '../../database/open.ts'
import { channels, connections, dealEvents, deliveries, rules } from '../../database/schema.ts'
import { chatOf, crmOf } from '../../people/routes.ts'
import { type Delivery, deliveryAndEvent, fewestInDigest, milliseconds } from './delivery.ts'

export type Next =
  | { kind: 'delivery'; delivery: Delivery }
  | { kind: 'wait'; ms: number }
  | { kind: 'nothing' }

const crm = alias(connections, 'crm')
const chat = alias(connections, 'chat')
/**
 * Returns the first pending delivery of a channel that need not wait, by time of occurrence. If a
 * delivery must wait, later deliveries of the same user wait too, so that their order is kept.
 * Deliveries of other users do not wait.
 */
export async function nextDelivery(database: Database, channel: string): Promise<Next> {
  const isPending = and(eq(deliveries.channel, channel), eq(deliveries.state, 'pending'))
  // Finds the id alone, so that nothing else of a channel's other pending deliveries is read.
  const firstId = database
    .select({ id: deliveries.id })
    .from(deliveries)
    .where(isPending)
    .orderBy(deliveries.occurredAt, deliveries.id)
    .limit(1)
  for (;;) {
    const first = await readDelivery(database, channel, sql`(${firstId})`)
    if (first === undefined) return { kind: 'nothing' }
    if (first.waitMs <= 0) return { kind: 'delivery', delivery: first }
    // Only now the first delivery of each user: this reads all that wait in the channel.
    const heads = await rowsOf<{ id: string; wait_ms: number }>(
      database,
      sql`select id, wait_ms from (
            select distinct on (user_id) id, occurred_at, (${deliveryAndEvent.waitMs})::float8 as wait_ms
            from ${deliveries} where ${isPending} order by user_id, occurred_at, id
          ) as head order by occurred_at, id`,
    )
    const free = heads.find(({ wait_ms }) => wait_ms <= 0)
    if (free === undefined) {
      return { kind: 'wait', ms: Math.min(first.waitMs, ...heads.map(({ wait_ms }) => wait_ms)) }
    }
    const delivery = await readDelivery(database, channel, sql`${free.id}`)
    if (delivery !== undefined) return { kind: 'delivery', delivery }
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
