import { and, eq, sql } from 'drizzle-orm'
import type { Database } from '../../database/open.ts'
import { dealEvents, deliveries } from '../../database/schema.ts'
import { type Delivery, deliveryAndEvent, type Shown } from './delivery.ts'

/** The most deliveries of one page. */
const mostAtOnce = 200

export interface UpcomingDelivery extends Delivery {
  /**
   * What the list shows of this change, if another user's message has already reported it in this channel.
   * Otherwise null.
   */
  alreadyReported: Shown | null
}

/**
 * Finds the next deliveries that one message may cover, page by page: `first` and those of its user after it, in
 * their order, up to the first one that must wait. If a process died while it sent a message, `first` belongs to
 * that message, and the page has the rest of it and nothing else. So Slack may get one message twice, but not its
 * parts in other messages.
 */
export async function* deliveriesFrom(
  database: Database,
  first: Delivery,
): AsyncGenerator<UpcomingDelivery[], void> {
  let last: Delivery | undefined
  for (;;) {
    const page = await pageAfter(database, first, last)
    yield page
    if (page.length < mostAtOnce) return
    last = page.at(-1)
  }
}

async function pageAfter(
  database: Database,
  first: Delivery,
  last: Delivery | undefined,
): Promise<UpcomingDelivery[]> {
  const askedAt = Date.now()
  const rows = await database
    .select({
      ...deliveryAndEvent,
      alreadyReported: sql<Shown | null>`(
        select json_strip_nulls(json_build_object(
          'ruleId', other.rule_id, 'dealName', other.deal_name, 'dealUrl', other.deal_url,
          'from', other.from_label, 'to', other.to_label
        ))
        from deliveries other
        where other.event_id = ${deliveries.eventId} and other.channel = ${first.channel}
          and other.id <> ${deliveries.id} and other.state = 'sent'
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
        last &&
          sql`(${deliveries.occurredAt}, ${deliveries.id}) >
              (${last.occurredAt.toISOString()}::timestamptz, ${last.id}::bigint)`,
      ),
    )
    .orderBy(deliveries.occurredAt, deliveries.id)
    .limit(mostAtOnce)
  const firstThatWaits = rows.findIndex(
    ({ waitMs, claimedUntil }) => waitMs > 0 || claimedUntil !== first.claimedUntil,
  )
  const ready = firstThatWaits === -1 ? rows : rows.slice(0, firstThatWaits)
  return ready.map((row) => ({ ...first, ...row, receivedAtMs: askedAt - row.ageMs }))
}
