// The SQL that stores events from webhooks and from a search. Gets events that fit into one transaction (`firstOf`), and
// for whom they are (`targetsOf`). Inserts each event that is new, a delivery of it for each user of its account,
// and makes the channels due. So an event is never stored without its deliveries, and no delivery waits in a channel
// that nobody works on.

import { type SQL, sql } from 'drizzle-orm'
import { type Executor, rowsOf } from '../../database/open.ts'
import { channelOf, chatOf } from '../../people/routes.ts'
import type { DealEvent } from '../../providers/deal.ts'
import type { CrmId, DealProperty } from '../../providers/registry.ts'
import { propertiesOf } from '../decide/rules.ts'
import { makeDueFrom } from '../schedule/channels.ts'

export type CrmEvent = DealEvent & { crm: CrmId }

export const accountOf = ({ crm, accountId }: Pick<CrmEvent, 'crm' | 'accountId'>) =>
  `${crm}/${accountId}`

/** A CRM's webhooks and its history may give slightly different times for one change. */
export const sameChangeMs = 60_000

/** A user who gets the changes of an account. */
interface Target {
  crm: string
  account: string
  user: string
  channel: string
  /** The user gets no changes from before this time, in ms since 1970. */
  sinceMs: number
  /** Those that the user's ticked rules are about. A change of another one needs no delivery. */
  properties: readonly DealProperty[]
}

/**
 * The most rows (events and deliveries) of one transaction. On PGlite, a transaction of this size keeps the
 * thread busy for 60 to 70 ms.
 */
export const maxRowsAtOnce = 2_000

/**
 * An advisory lock for each account. A transaction that stores webhooks shares those of its accounts with others of its
 * kind. A transaction that stores missed changes of an account takes its lock alone. Otherwise neither would see that
 * the other one stores the same change. So does one whose events have former values: it would not see that the other one
 * stores a change of the same second (`timeInOrder`).
 */
const storeLock = sql`hashtextextended(crm.provider || ':' || crm.account_id, 7325214)`

const connectedSinceMs = sql`
  (extract(epoch from greatest(crm.connected_since, chat.connected_since)) * 1000)::float8`

/**
 * Returns the users of the events' accounts. The transaction has the locks of the accounts of these users then. A
 * webhook is for every user who is connected now, and a missed change for those who were connected then.
 */
export async function targetsOf(
  tx: Executor,
  events: readonly CrmEvent[],
  foundBy: FoundBy,
): Promise<Target[]> {
  const isAlone = foundBy === 'search' || events.some(({ former }) => former !== undefined)
  const rows = await rowsOf<
    Omit<Target, 'channel' | 'properties'> & {
      chatAccount: string
      chatChannel: string | null
      ruleIds: string[] | null
    }
  >(
    tx,
    sql`select crm.provider as crm, crm.account_id as account, crm.user_id as "user",
               chat.account_id as "chatAccount", chat.channel_id as "chatChannel",
               rules.rule_ids as "ruleIds",
               ${foundBy === 'webhook' ? sql`0` : connectedSinceMs} as "sinceMs",
               ${isAlone ? sql`pg_advisory_xact_lock` : sql`pg_advisory_xact_lock_shared`}(${storeLock})
        from connections crm
        cross join lateral ${chatOf(
          sql`crm.user_id`,
          sql`account_id, channel_id, connected_since`,
        )} as chat
        left join rules on rules.user_id = crm.user_id
        where crm.provider = any(${sql.param([...new Set(events.map(({ crm }) => crm))])}::text[])
          and crm.account_id = any(${sql.param([...new Set(events.map(({ accountId }) => accountId))])}::text[])
        order by crm.id`,
  )
  return rows.map(({ chatAccount, chatChannel, ruleIds, ...target }) => ({
    ...target,
    channel: channelOf({ accountId: chatAccount, channelId: chatChannel }),
    properties: propertiesOf(ruleIds ?? []),
  }))
}

/** Returns the function that says how many users get a delivery of an event. */
export function usersOf(targets: readonly Target[]): (event: CrmEvent) => number {
  const ofAccount = Map.groupBy(targets, ({ crm, account }) => `${crm}/${account}`)
  return ({ crm, accountId, property, occurredAt }) =>
    ofAccount
      .get(`${crm}/${accountId}`)
      ?.filter(
        ({ sinceMs, properties }) =>
          sinceMs <= occurredAt.getTime() && properties.includes(property),
      ).length ?? 0
}

/** The first of these events that together need at most `maxRowsAtOnce` rows, but at least one event. */
export function firstOf(
  events: readonly CrmEvent[],
  users: (event: CrmEvent) => number,
): readonly CrmEvent[] {
  let rows = 0
  const end = events.findIndex((event, at) => {
    rows += 1 + users(event)
    return at > 0 && rows > maxRowsAtOnce
  })
  return end === -1 ? events : events.slice(0, end)
}

/**
 * Inserts new events and their deliveries. An event is new if its key is, and if the other way has not reported the same
 * change. @returns how many it inserted for each account, as `accountOf` names it.
 */
export async function insertEvents(
  tx: Executor,
  events: readonly CrmEvent[],
  targets: readonly Target[],
  foundBy: FoundBy,
): Promise<Map<string, number>> {
  const inserted = await rowsOf<{ account: string; count: number }>(
    tx,
    sql`with stored as (
          insert into deal_events (key, crm, account_id, deal_id, property, value, former, occurred_at, found_by)
          select key, crm, "accountId", "dealId", property, value, former, ${timeInOrder}, ${foundBy}::text
          from ${itemsOf(events)} where not ${isReportedBy(foundBy === 'search' ? 'webhook' : 'search')}
          on conflict (key) do nothing
          returning id, crm, account_id, property, occurred_at
        ), made as (
          insert into deliveries (event_id, user_id, channel, occurred_at)
          select stored.id, target."user", target.channel, stored.occurred_at
          from stored
          join json_to_recordset(${JSON.stringify(targets)}::json)
            as target(crm text, account text, "user" uuid, channel text, "sinceMs" float8, properties text[])
            on target.crm = stored.crm and target.account = stored.account_id
            and stored.property = any(target.properties)
            and target."sinceMs" <= extract(epoch from stored.occurred_at) * 1000
          order by stored.id
          returning channel
        ), due as (
          ${makeDueFrom(sql`select channel from made`)}
        )
        select crm || '/' || account_id as account, count(*)::int as count from stored group by account`,
  )
  return new Map(inserted.map(({ account, count }) => [account, count]))
}

export const sumOf = (inserted: ReadonlyMap<string, number>) =>
  [...inserted.values()].reduce((sum, count) => sum + count, 0)

/** Returns the events of a search that are not stored yet. */
export async function unknownOf(
  database: Executor,
  events: readonly CrmEvent[],
): Promise<CrmEvent[]> {
  const rows = await rowsOf<{ key: string }>(
    database,
    sql`select key from ${itemsOf(events)}
        where not ${isReportedBy('webhook')}
          and (select id from deal_events where deal_events.key = item.key) is null`,
  )
  const unknown = new Set(rows.map(({ key }) => key))
  return events.filter(({ key }) => unknown.has(key))
}

/**
 * Returns those of these deals of which a change may be missing: the newest stored one has another value than the last
 * change, is older, or does not begin where the one before ended. If none is stored, the last change is news if it happened
 * since `sinceMs` (ms since 1970). @returns also the id of the newest stored one: if it stays, nothing was found since.
 */
export async function dealsWithNews(
  database: Executor,
  of: { crm: CrmId; accountId: string; property: DealProperty; sinceMs: number },
  last: ReadonlyArray<{ dealId: string; value: string; at: Date }>,
): Promise<Array<{ dealId: string; newest: string | null }>> {
  return await rowsOf(
    database,
    sql`select item."dealId", stored.id::text as newest
        from json_to_recordset(${JSON.stringify(last)}::json)
          as item("dealId" text, value text, at timestamptz)
        left join lateral (
          select id, value, occurred_at, former, lead(value) over (order by occurred_at desc, id desc) as before
          from deal_events
          where account_id = ${of.accountId} and deal_id = item."dealId"
            and crm = ${of.crm} and property = ${of.property}
          order by occurred_at desc, id desc limit 1
        ) as stored on true
        where case when stored.value is null then item.at > to_timestamp(${of.sinceMs / 1000}::float8)
          else stored.value <> item.value or stored.occurred_at < item.at - ${tolerance}
            or coalesce(stored.former <> to_json(stored.before)::text, false) end`,
  )
}

type FoundBy = 'webhook' | 'search'

/** Events as rows of a table `item`. */
function itemsOf(events: readonly CrmEvent[]): SQL {
  // Sort by the events alone, so that two transactions with the same events cannot deadlock. If
  // two events have the same time, the relay sends the one that was inserted first.
  const rows = inOrder(events).map(({ occurredAt, former, ...event }) => ({
    ...event,
    at: occurredAt.toISOString(),
    former: former === undefined ? null : JSON.stringify(former),
  }))
  return sql`json_to_recordset(${JSON.stringify(rows)}::json) as item(
    key text, crm text, "accountId" text, "dealId" text, property text, value text, former text, at timestamptz)`
}

/**
 * The condition that a webhook, or a search, has reported the change of an `item`: webhook and search give one change
 * different keys and slightly different times. It stays a lookup for each event, and does not become a join that may
 * change their order.
 */
const isReportedBy = (foundBy: FoundBy) => sql`coalesce((
  select true from deal_events as same
  where same.account_id = item."accountId" and same.deal_id = item."dealId"
    and same.found_by = ${foundBy}
    and same.occurred_at between item.at - ${tolerance} and item.at + ${tolerance}
    and same.crm = item.crm and same.property = item.property and same.value = item.value
  limit 1), false)`

const tolerance = sql`make_interval(secs => ${sameChangeMs / 1000})`

const tick = sql`interval '1 ms'`

/**
 * When the change of an `item` happened. If another change of this time is stored, one millisecond later if that one made
 * the item's former value, or earlier if that one began with the item's value. So each later stage takes them in their order.
 */
const timeInOrder = sql`coalesce((
  select same.occurred_at + case when item.former = to_json(same.value)::text then ${tick} else -${tick} end
  from deal_events as same
  where same.account_id = item."accountId" and same.deal_id = item."dealId"
    and same.crm = item.crm and same.property = item.property
    and same.occurred_at between item.at - 10 * ${tick} and item.at + 10 * ${tick}
    and (item.former = to_json(same.value)::text or same.former = to_json(item.value)::text)
  limit 1), item.at)`

/**
 * Sorts events by their times. In one second, which is the precision of some CRMs, an automation may change a deal several
 * times: of equal times, an event comes after the one whose value was its former value.
 */
export function inOrder<Event extends DealEvent>(events: readonly Event[]): Event[] {
  const sorted = events.toSorted((a, b) => byTime(a, b) || (a.key < b.key ? -1 : 1))
  const valueAt = ({ accountId, dealId, property, occurredAt }: Event, value: unknown) =>
    JSON.stringify([accountId, dealId, property, occurredAt, value])
  const made = new Set(sorted.map((event) => valueAt(event, event.value)))
  const following = new Map(sorted.map((event) => [valueAt(event, event.former), event]))
  const ordered = new Set<Event>()
  const firsts = sorted.filter((event) => !made.has(valueAt(event, event.former)))
  // The others after them are in circles.
  for (const first of [...firsts, ...sorted]) {
    let event: Event | undefined = first
    while (event !== undefined && !ordered.has(event)) {
      ordered.add(event)
      event = following.get(valueAt(event, event.value))
    }
  }
  return [...ordered].sort(byTime)
}

const byTime = (a: DealEvent, b: DealEvent) =>
  a.occurredAt.getTime() - b.occurredAt.getTime() || Number(a.dealId) - Number(b.dealId)
