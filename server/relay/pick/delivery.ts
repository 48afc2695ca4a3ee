import { type SQL, sql } from 'drizzle-orm'
import type { AvailableRuleId } from '../../../contract/rules.ts'
import { dealEvents, deliveries, testProperty } from '../../database/schema.ts'
import type { Connection } from '../../people/connections.ts'
import type { CrmId, DealProperty } from '../../providers/registry.ts'

/** A pending row of the table `deliveries`, with all that the later stages need of the database. */
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
  /** How many deliveries are pending in the channel, this one included. Counted up to `fewestInDigest`. */
  pendingInChannel: number
  /** What is known of the change, for the user's list of messages. */
  shown?: Shown
}

/** If fewer deliveries are pending in a channel, each gets its own message. */
export const fewestInDigest = 6

/** Deliveries of one user in one channel that one message covers. */
export type Group = readonly [Delivery, ...Delivery[]]

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

export const milliseconds = (time: SQL) =>
  sql<number>`extract(epoch from ${time}) * 1000`.mapWith(Number)

/** What each read of pending deliveries selects of a delivery and its event. */
export const deliveryAndEvent = {
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
 * The state of a delivery, in a form that fits no index. PGlite has no statistics: for `state = 'pending'`, its
 * planner would read the whole index of pending deliveries, and not a few rows by their ids.
 */
export const stateWithoutIndex = sql`state || ''`
