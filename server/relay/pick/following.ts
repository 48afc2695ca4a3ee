import { and, eq, sql } from 'drizzle-orm'
import type { Database } from '../../database/open.ts'
import { dealEvents, deliveries } from '../../database/schema.ts'
import { type DealDelivery, type Delivery, deliveryAndEvent, isOfDeal } from './delivery.ts'

/** The most deliveries of one page. */
const mostAtOnce = 200

export type Page = readonly DealDelivery[]

/** The only page. */
export async function* onePage(all: Page): AsyncGenerator<Page, void> {
  yield all
}

/**
 * Finds the deliveries that one digest may cover, page by page: `first` and those of its user after it, in their order,
 * up to the first one that must wait or that needs a message of its own.
 *
 * If `first` has `claimedUntil`, nobody recorded what became of an earlier claim. Then this finds only the deliveries
 * with the same `claimedUntil`. So they stay one message, and Slack does not get them in other messages.
 */
export async function* digestPages(
  database: Database,
  first: DealDelivery,
  {
    mayDigest,
    isStopping,
  }: { mayDigest: (delivery: Delivery) => boolean; isStopping: () => boolean },
): AsyncGenerator<Page, void> {
  let last: Delivery | undefined
  while (!isStopping()) {
    const page = await pageAfter(database, first, last)
    const end = page.findIndex((each) => !isOfDeal(each) || !mayDigest(each))
    yield (end === -1 ? page : page.slice(0, end)).filter(isOfDeal)
    if (end !== -1 || page.length < mostAtOnce) return
    last = page.at(-1)
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
