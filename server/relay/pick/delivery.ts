import { type SQL, type SQLWrapper, sql } from 'drizzle-orm'
import type { AvailableRuleId } from '../../../contract/rules.ts'
import { isTooFarAhead, waitsUntil } from '../../database/clock.ts'
import { dealEvents, deliveries, testProperty, users } from '../../database/schema.ts'
import type { Connection } from '../../people/connections.ts'
import { type CrmId, crmIds, type DealProperty } from '../../providers/registry.ts'

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
  /** The former value as JSON (`deal_events.former`). Null: the deal's history must tell it. */
  former: string | null
  occurredAt: Date
  /** When the event arrived, on the clock of `performance.now()`. */
  receivedAtMs: number
  /**
   * When the latest claim of this delivery ends. The claim is this process's own, or an earlier one whose outcome
   * nobody recorded, or whose answer was lost. Null if there is no such claim. Deliveries with the same time were claimed
   * for one message.
   */
  claimedUntil: string | null
  /**
   * An earlier call may have posted it: nobody recorded what became of that, or its answer was lost. Those that it covered
   * stay one message, so that a chat that knows the id of a message again posts it once.
   */
  mayBePosted: boolean
  /** When the channel accepts its next message, on the clock of `performance.now()`. */
  channelFreeAt: number
  crm: Connection | null
  chat: Connection | null
  /** The user has disconnected since the delivery was stored. */
  isEnded: boolean
  /** The operator lets the messages of the account wait. */
  isPaused: boolean
  /** The form of the message after the chat has refused a richer one. */
  form: 'single' | 'plain' | null
  /** Its tries fail, but the providers work for other messages. These do not wait for it. */
  alone: boolean
  ruleIds: readonly string[]
  /**
   * How many deliveries are pending in the channel that one digest may cover with this one, which is included. Counted up
   * to `fewestInDigest`.
   */
  pendingInChannel: number
  /**
   * The user's earlier deliveries that have failed and wait, if they are not yet known to fail alone. Empty if it has its
   * turn.
   */
  passes: readonly number[]
  shown?: Shown
}

/** If fewer deliveries are pending in a channel, each gets its own message. */
export const fewestInDigest = 6

/** The reasons of a delivery that waits though no try of it has failed. */
export const limitOf = (crm: CrmId) => `${crm}_rate_limited`
export const waitReasons = ['paused', 'rate_limited', ...crmIds.map(limitOf)] as const

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

/** The longest wait for another try, and how long a claim lasts. A post takes eleven seconds. */
export const longestPutOffMs = 15 * 60_000
export const claimMs = 20_000

/**
 * The condition that a call is sending a delivery. One that is recorded as sent can meet it, too: while a process
 * stood still, another one may have begun to send the message again.
 */
export const isClaimed = sql`(sending_until > clock_timestamp()
  and not (${isTooFarAhead(sql`sending_until`, claimMs, sql`clock_timestamp()`)}))`

/** Until when a delivery waits, as SQL; null if it need not. @param delivery the name of a row of `deliveries`. */
export const putOffUntil = (delivery: SQLWrapper) => sql`greatest(
  ${waitsUntil(sql`${delivery}.not_before`, longestPutOffMs)},
  ${waitsUntil(sql`${delivery}.sending_until`, claimMs)})`

export const milliseconds = (time: SQL) =>
  sql<number>`extract(epoch from ${time}) * 1000`.mapWith(Number)

/** What each read of pending deliveries selects of a delivery, its event and its user. */
export const deliveryAndEvent = {
  id: deliveries.id,
  eventId: deliveries.eventId,
  attempts: deliveries.attempts,
  form: deliveries.form,
  alone: deliveries.alone,
  isEnded: sql<boolean>`coalesce(${deliveries.id} <= (
    select ended_through from ${users} as own where own.id = ${deliveries.userId}), false)`,
  crmId: dealEvents.crm,
  accountId: dealEvents.accountId,
  dealId: dealEvents.dealId,
  property: dealEvents.property,
  value: dealEvents.value,
  former: dealEvents.former,
  occurredAt: dealEvents.occurredAt,
  // An event that seems to arrive later arrived while the clock was wrong. The time of its change is from the CRM's clock.
  ageMs: milliseconds(
    sql`now() - coalesce(${waitsUntil(dealEvents.receivedAt, 0)}, ${dealEvents.occurredAt})`,
  ),
  waitMs: milliseconds(sql`greatest(${putOffUntil(deliveries)}, now()) - now()`),
  claimedUntil: sql<string | null>`${deliveries.sendingUntil}::text`,
  mayBePosted: sql<boolean>`${deliveries.sendingUntil} is not null`,
}
