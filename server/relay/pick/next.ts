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
import {
  type Delivery,
  deliveryAndEvent,
  fewestInDigest,
  isClaimed,
  milliseconds,
  waitReasons,
} from './delivery.ts'

export type Next =
  | { kind: 'delivery'; delivery: Delivery }
  /** `failing`: because a try has failed. */
  | { kind: 'wait'; ms: number; failing: boolean }
  | { kind: 'nothing' }

const crm = alias(connections, 'crm')
const chat = alias(connections, 'chat')

/**
 * So many deliveries of a user may fail, one after the other, and still let the next one pass. If all fail, a provider is
 * away, and further tries would only burden it.
 */
const mostPassed = 10

/** The condition that a delivery waits because its last try has failed, and not for a limit or for another process. */
const hasFailed = sql`coalesce(attempts > 0 and ${isClaimed} is not true
  and reason <> all(${sql.param([...waitReasons])}::text[]), false)`
const waitMs = sql`(${deliveryAndEvent.waitMs})::float8`

/**
 * The SQL of what may be next in a channel, as a table `turn`: the first pending delivery of each user and, if this one
 * has failed, those after it. It takes one look at an index for each user, however much waits behind the first one. What
 * fails alone is left out: it holds nothing.
 *
 * - `is_held`: one before it must wait, and keeps its place.
 * - `passes`: those before it that have failed.
 * - `may_pass`: each failed try of the earlier ones lets one more be tried. So a channel goes on soon if its chat cannot be asked
 *   whether it works, and a provider that is away gets few tries.
 */
const turnsOf = (channel: string) => {
  const ofUser = (condition: SQL, limit: SQL) => sql`(
    select user_id, id, occurred_at, attempts, ${waitMs} as wait_ms, ${hasFailed} as failed from ${deliveries}
    where channel = ${channel} and state = 'pending' and not alone and ${condition}
    order by user_id, occurred_at, id limit ${limit})`
  const one = sql`1`
  return sql`recursive head as (
    ${ofUser(sql`true`, one)}
    union all
    select next.* from head cross join lateral ${ofUser(sql`user_id > head.user_id`, one)} as next
  ), own as (
    select each.*, each.failed and each.wait_ms > 0 as counts
    from head
    cross join lateral ${ofUser(
      sql`user_id = head.user_id`,
      sql`case when head.failed and head.wait_ms > 0 then ${mostPassed + 1}::int else 1 end`,
    )} as each
  ), looked as (
    select *, coalesce(bool_or(wait_ms > 0 and not failed) over before, false) as is_held,
           coalesce(array_agg(id) filter (where counts) over before, '{}') as passes,
           coalesce(max(attempts) filter (where counts) over before, 0) as tries
    from own
    window before as (
      partition by user_id order by occurred_at, id rows between unbounded preceding and 1 preceding
    )
  ), turn as (
    select *, cardinality(passes) <= least(tries, ${mostPassed}::int) as may_pass from looked
  )`
}

/**
 * Returns the first pending delivery of a channel that need not wait, by time of occurrence. If a
 * delivery must wait, later deliveries of the same user wait too, so that their order is kept. But nothing waits for one
 * that fails alone, and one more is tried after each try of those that have failed. What fails alone has its next try
 * when nothing else can be sent, and the one that has waited longest goes first: else those whose short waits are over
 * again would keep the others from ever being tried. Deliveries of other users do not wait.
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
    if (first.waitMs <= 0 && !first.alone) return { kind: 'delivery', delivery: first }
    const [found] = await rowsOf<{
      free: { id: number; passes: number[] } | null
      ms: number | null
      failing: boolean
    }>(
      database,
      sql`with ${turnsOf(channel)}, apart as (
            select id, occurred_at, not_before, ${waitMs} as wait_ms from ${deliveries}
            where channel = ${channel} and state = 'pending' and alone
          )
          select coalesce((
                   select json_build_object('id', id, 'passes', passes) from turn
                   where wait_ms <= 0 and not is_held and may_pass order by occurred_at, id limit 1
                 ), (
                   select json_build_object('id', id, 'passes', '{}'::bigint[]) from apart
                   where wait_ms <= 0 order by not_before nulls first, occurred_at, id limit 1
                 )) as free,
                 least(min(wait_ms) filter (where wait_ms > 0 and not is_held),
                       (select min(wait_ms) from apart)) as ms,
                 coalesce(bool_or(attempts > 0), false) as failing
          from turn`,
    )
    if (found?.free) {
      const { id, passes } = found.free
      const delivery = await readDelivery(database, channel, sql`${id}`)
      if (delivery !== undefined) return { kind: 'delivery', delivery: { ...delivery, passes } }
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
          where each.channel = ${channel} and each.state = 'pending' and each.alone = ${deliveries.alone}
          limit ${fewestInDigest}
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
  return { ...row, channel, channelFreeAt, receivedAtMs, ruleIds: row.ruleIds ?? [], passes: [] }
}
