import { and, eq, sql } from 'drizzle-orm'
import type { Database } from '../../database/open.ts'
import { dealEvents, deliveries } from '../../database/schema.ts'
import { type DealDelivery, type Delivery, deliveryAndEvent, isOfDeal } from './delivery.ts'

const mostOfPage = 200

/** Deliveries of one user in their order. The next page begins after `last`; undefined: there is none. */
export interface DeliveryPage {
  deliveries: readonly DealDelivery[]
  last: Delivery | undefined
}

/**
 * Finds the next deliveries that one digest may cover: `first` and those of its user after it, in their order, up to the
 * first one that must wait, must end, or needs a message of its own.
 *
 * If `first` has `claimedUntil`, nobody recorded what became of an earlier claim. Then this finds only the deliveries
 * with the same `claimedUntil`. So they stay one message, and the chat does not get them in other messages.
 */
export async function nextPage(
  database: Database,
  first: DealDelivery,
  after: Delivery | undefined,
): Promise<DeliveryPage> {
  const page = await pageAfter(database, first, after)
  const end = page.findIndex((each) => !isOfDeal(each) || each.form !== null || each.isEnded)
  const isLast = end !== -1 || page.length < mostOfPage
  return {
    deliveries: (end === -1 ? page : page.slice(0, end)).filter(isOfDeal),
    last: isLast ? undefined : page.at(-1),
  }
}

async function pageAfter(
  database: Database,
  first: Delivery,
  last: Delivery | undefined,
): Promise<Delivery[]> {
  const askedAt = performance.now()
  const rows = await database
    .select(deliveryAndEvent)
    .from(deliveries)
    .innerJoin(dealEvents, eq(dealEvents.id, deliveries.eventId))
    .where(
      and(
        eq(deliveries.channel, first.channel),
        eq(deliveries.state, 'pending'),
        eq(deliveries.userId, first.userId),
        // What fails alone must not fail the others.
        eq(deliveries.alone, first.alone),
        first.claimedUntil === null
          ? undefined
          : sql`${deliveries.sendingUntil} = ${first.claimedUntil}::timestamptz`,
        // What has failed before the first one keeps its own message.
        sql`(${deliveries.occurredAt}, ${deliveries.id}) ${last ? sql`>` : sql`>=`}
            (${(last ?? first).occurredAt.toISOString()}::timestamptz, ${(last ?? first).id}::bigint)`,
      ),
    )
    .orderBy(deliveries.occurredAt, deliveries.id)
    .limit(mostOfPage)
  const firstThatWaits = rows.findIndex(
    ({ waitMs, claimedUntil }) => waitMs > 0 || claimedUntil !== first.claimedUntil,
  )
  const ready = firstThatWaits === -1 ? rows : rows.slice(0, firstThatWaits)
  return ready.map((row) => ({ ...first, ...row, receivedAtMs: askedAt - row.ageMs }))
}
