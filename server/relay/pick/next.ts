// `pick/` gets a channel that this process leases. It returns the first delivery that need not wait (this file), and
// then those after it that the same message may cover (following.ts). It keeps the order of each user's deliveries.
// It changes nothing.

import { and, eq, notInArray, sql } from 'drizzle-orm'
import { alias } from 'drizzle-orm/pg-core'
import { pausedUntil } from '../../database/clock.ts'
import type { Database } from '../../database/open.ts'
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
  const waitingUsers: string[] = []
  let waitMs = Number.POSITIVE_INFINITY
  for (;;) {
    // Finds the id alone, so that nothing else of a channel's other pending deliveries is read.
    const firstId = database
      .select({ id: deliveries.id })
      .from(deliveries)
      .where(
        and(
          eq(deliveries.channel, channel),
          eq(deliveries.state, 'pending'),
          notInArray(deliveries.userId, waitingUsers),
        ),
      )
      .orderBy(deliveries.occurredAt, deliveries.id)
      .limit(1)
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
      .where(eq(deliveries.id, firstId))
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
