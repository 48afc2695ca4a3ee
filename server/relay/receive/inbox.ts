import { setImmediate as nextTurn } from 'node:timers/promises'
import { type SQL, sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../../database/open.ts'
import { isOfConfigured } from '../../people/connections.ts'
import type { DealEvent, Providers } from '../../providers/provider.ts'
import { type CrmId, chatIds } from '../../providers/registry.ts'
import { failpoint } from '../failpoint.ts'
import { makeDueFrom } from '../schedule/channels.ts'
import { type Change, dealIdsOf, sameChanges, toleranceMs } from './same-change.ts'

export interface Inbox {
  /** Stores the new events and their deliveries. Resolves after the commit. */
  store(crm: CrmId, events: readonly DealEvent[]): Promise<void>
  /**
   * Stores those events that no webhook has brought, for the users who were connected when the change happened.
   * `events` must contain all changes of these deals and properties in the searched time.
   * @param aheadMs How far our clock is ahead of the CRM's.
   * @returns how many it stored.
   */
  storeMissed(crm: CrmId, events: readonly DealEvent[], aheadMs: number): Promise<number>
}

type CrmEvent = DealEvent & { crm: CrmId }

/**
 * The most rows (events and deliveries) of one transaction. On PGlite, a transaction of this size blocks the thread
 * for 60 to 70 ms. A transaction has a fixed cost, so webhooks that arrive during one share the next one.
 */
const maxRowsAtOnce = 2_000
/** The most changes from a search that are stored at once. To find those that are known also blocks the thread. */
const mostCompared = 300
/** The most known events to compare with, those of the nearest time. One deal may have thousands within a minute. */
const mostKnown = 2_000

/** @param onStored is called after each transaction. */
export function createInbox(database: Database, providers: Providers, onStored: () => void): Inbox {
  interface Waiting {
    events: readonly CrmEvent[]
    resolve: () => void
    reject: (error: unknown) => void
  }
  let waiting: Waiting[] = []
  let storing = false

  async function storeWaiting(): Promise<void> {
    storing = true
    while (waiting.length > 0) {
      await readArrivedRequests()
      let count = 0
      const batch = waiting.filter(({ events }, at) => {
        count += events.length
        return at === 0 || count <= maxRowsAtOnce
      })
      waiting = waiting.slice(batch.length)
      try {
        let stored = await storeEvents(
          database,
          providers,
          batch.flatMap(({ events }) => events),
        )
        const next: Waiting[] = []
        for (const each of batch) {
          const rest = each.events.slice(stored)
          stored = Math.max(0, stored - each.events.length)
          if (rest.length === 0) each.resolve()
          // A webhook that is too large for one transaction goes to the end of the queue.
          else (each === batch[0] ? waiting : next).push({ ...each, events: rest })
        }
        waiting.unshift(...next)
        onStored()
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    storing = false
  }

  /** Reads requests that arrived during a transaction: PGlite blocks this thread until its end. */
  async function readArrivedRequests(): Promise<void> {
    let known: number
    do {
      known = waiting.length
      await nextTurn()
    } while (waiting.length > known)
  }

  return {
    store(crm, received) {
      if (received.length === 0) return Promise.resolve()
      return new Promise((resolve, reject) => {
        // In order of occurrence, because the relay may send the first ones before all are stored.
        const events = received.map((event) => ({ ...event, crm })).sort(byTime)
        waiting.push({ events, resolve, reject })
        if (!storing) void storeWaiting()
      })
    },

    async storeMissed(crm, found, aheadMs) {
      // A history may name the same change twice.
      const byKey = new Map(found.map((event) => [event.key, { ...event, crm }]))
      const events = [...byKey.values()].sort(byTime)
      let count = 0
      for (let start = 0; start < events.length; start += mostCompared) {
        const end = start + mostCompared
        const part = {
          events: events.slice(start, end),
          near: [
            ...events.slice(Math.max(0, start - mostCompared), start),
            ...events.slice(end, end + mostCompared),
          ],
        }
        // Nearly always, the webhooks have brought everything. Then no transaction is needed.
        while ((await withoutKnown(database, part)).length > 0) {
          const stored = await storeMissedEvents(database, providers, part, aheadMs)
          if (stored === 0) break
          count += stored
          onStored()
          await nextTurn()
        }
        await nextTurn()
      }
      return count
    },
  }
}

interface Target {
  crm: string
  account: string
  user: string
  channel: string
  /** The user gets no changes from before this time, in ms since 1970. */
  sinceMs: number
}

/**
 * Transactions that store webhooks share this advisory lock, and one that stores missed changes holds it
 * alone. Otherwise neither would see that the other one stores the same change.
 */
const storeLock = 7_325_214

/** Stores the first of these events, each with all its deliveries. @returns how many. */
async function storeEvents(
  database: Database,
  providers: Providers,
  events: readonly CrmEvent[],
): Promise<number> {
  const { first, others } = await database.transaction(async (tx) => {
    const targets = await targetsOf(tx, providers, events, 'shared')
    const users = usersOf(targets)
    const first = firstOf(events, users)
    // Drop events of an account that no user has connected. The server still acknowledges them.
    const kept = first.filter((event) => users(event) > 0)
    if (kept.length === 0) return { first, others: [] }
    const accounts = new Set(kept.map(({ crm, accountId }) => `${crm}/${accountId}`))
    const inserted = await insertEvents(
      tx,
      kept,
      targets.filter(({ crm, account }) => accounts.has(`${crm}/${account}`)),
      { foundBy: 'webhook', unlessSearched: true },
    )
    failpoint('in transaction')
    return { first, others: inserted < kept.length ? kept : [] }
  })
  // The others are stored already, or a search may have found them. They get a transaction of their own,
  // because each transaction locks channels only once, in one order.
  if (others.length > 0) {
    await database.transaction((tx) => insertUnlessFound(tx, providers, others))
  }
  return first.length
}

/** Returns the function that says how many users an event is for. */
function usersOf(targets: readonly Target[]): (event: CrmEvent) => number {
  const ofAccount = Map.groupBy(targets, ({ crm, account }) => `${crm}/${account}`)
  return ({ crm, accountId }) => ofAccount.get(`${crm}/${accountId}`)?.length ?? 0
}

/** The first of these events that together need at most `maxRowsAtOnce` rows, but at least one event. */
function firstOf(
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

/** Some of the events that a search has found, in order of occurrence. */
interface FoundEvents {
  events: readonly CrmEvent[]
  /** The events before and after them. A known event may be the same as one of these. */
  near: readonly CrmEvent[]
}

/** Stores the first of these events that are missing. @returns how many. */
async function storeMissedEvents(
  database: Database,
  providers: Providers,
  found: FoundEvents,
  aheadMs: number,
): Promise<number> {
  return await database.transaction(async (tx) => {
    const targets = (await targetsOf(tx, providers, found.events, 'alone')).map((target) => ({
      ...target,
      sinceMs: target.sinceMs - aheadMs,
    }))
    const missed = (await withoutKnown(tx, found)).filter(({ crm, accountId, occurredAt }) =>
      targets.some(
        (target) =>
          target.crm === crm &&
          target.account === accountId &&
          target.sinceMs <= occurredAt.getTime(),
      ),
    )
    const first = firstOf(missed, usersOf(targets))
    return first.length === 0 ? 0 : await insertEvents(tx, first, targets, { foundBy: 'search' })
  })
}

type Executor = Pick<Database, 'execute'>

const connectedSinceMs = sql`
  (extract(epoch from greatest(crm.connected_since, chat.connected_since)) * 1000)::float8`

/**
 * Returns the users of the events' accounts. If there are any, the transaction has the lock then. A
 * webhook is for every user who is connected now, and a missed change for those who were connected then.
 */
async function targetsOf(
  tx: Executor,
  providers: Providers,
  events: readonly CrmEvent[],
  lock: 'shared' | 'alone',
): Promise<Target[]> {
  // A user may have connected more than one chat. Use the one that was connected last.
  return await rowsOf<Target>(
    tx,
    sql`select distinct on (crm.id) crm.provider as crm, crm.account_id as account,
               crm.user_id as "user", chat.account_id || '/' || coalesce(chat.channel_id, '') as channel,
               ${lock === 'shared' ? sql`0` : connectedSinceMs} as "sinceMs",
               ${lock === 'shared' ? sql`pg_advisory_xact_lock_shared` : sql`pg_advisory_xact_lock`}(${storeLock})
        from connections crm
        join connections chat on chat.user_id = crm.user_id
          and chat.provider = any(${sql.param([...chatIds])}::text[])
          and ${isOfConfigured(providers, columnsOf('chat'))}
        where crm.provider = any(${sql.param([...new Set(events.map(({ crm }) => crm))])}::text[])
          and crm.account_id = any(${sql.param([...new Set(events.map(({ accountId }) => accountId))])}::text[])
          and ${isOfConfigured(providers, columnsOf('crm'))}
        order by crm.id, chat.connected_at desc`,
  )
}

/**
 * Inserts new events and their deliveries. With `unlessSearched`, leaves out the events of deals that
 * have an event found by a search, because it may be the same. Also makes `channels` due, which have got
 * other deliveries. A transaction may call it once: it locks channels. @returns how many it inserted.
 */
async function insertEvents(
  tx: Executor,
  events: readonly CrmEvent[],
  targets: readonly Target[],
  {
    foundBy,
    unlessSearched = false,
    channels = [],
  }: { foundBy: 'webhook' | 'search'; unlessSearched?: boolean; channels?: readonly string[] },
): Promise<number> {
  // Sort by the events alone, so that two transactions with the same events cannot deadlock. If
  // two events have the same time, the relay sends the one that was inserted first.
  const rows = events
    .toSorted(byTime)
    .map(({ occurredAt, ...event }) => ({ ...event, at: occurredAt.toISOString() }))
  const [inserted] = await rowsOf<{ count: number }>(
    tx,
    sql`with stored as (
          insert into deal_events
            (key, crm, account_id, deal_id, former_deal_ids, property, value, occurred_at, found_by)
          select key, crm, "accountId", "dealId", "formerDealIds", property, value, at, ${foundBy}::text
          from json_to_recordset(${JSON.stringify(rows)}::json)
            as item(key text, crm text, "accountId" text, "dealId" text, "formerDealIds" text[],
                    property text, value text, at timestamptz)
          ${unlessSearched ? ofUnsearchedDeals : sql``}
          on conflict (key) do nothing
          returning id, crm, account_id, occurred_at
        ), made as (
          ${deliverStored(targets)} returning channel
        ), due as (
          ${makeDueFrom(sql`select channel from made
            union all select unnest(${sql.param([...channels])}::text[])`)}
        )
        select count(*)::int as count from stored`,
  )
  return inserted?.count ?? 0
}

/** Returns the SQL that inserts the deliveries of the events that the query `stored` returns. */
const deliverStored = (targets: readonly Target[]) => sql`
  insert into deliveries (event_id, user_id, channel, occurred_at)
  select stored.id, target."user", target.channel, stored.occurred_at
  from stored
  join json_to_recordset(${JSON.stringify(targets)}::json)
    as target(crm text, account text, "user" uuid, channel text, "sinceMs" float8)
    on target.crm = stored.crm and target.account = stored.account_id
    and target."sinceMs" <= extract(epoch from stored.occurred_at) * 1000
  order by stored.id`

/** The events of a deal that a search found, under this id or, after a merge, under another one. */
const foundOf = (deal: SQL) => sql`
  select id from deal_events
  where account_id = ${deal}."accountId" and deal_id = ${deal}."dealId" and found_by = 'search'
  union all
  select id from deal_events
  where account_id = ${deal}."accountId" and former_deal_ids @> array[${deal}."dealId"]
    and found_by = 'search'`

// One look at the index is enough while no search has found anything, which is the usual case.
// A union stays a lookup for each event, and does not become a join that may change their order.
const ofUnsearchedDeals = sql`
  where (select id from deal_events where found_by = 'search' order by account_id, deal_id limit 1) is null
    or not exists (${foundOf(sql`item`)})`

interface KnownEvent extends Change {
  id: string
}

const knownColumns = sql`id::text as id, crm, account_id as "accountId", deal_id as "dealId",
  coalesce(former_deal_ids, '{}') as "formerDealIds", property, value,
  (extract(epoch from occurred_at) * 1000)::float8 as at`

async function knownEvents(tx: Executor, query: SQL): Promise<KnownEvent[]> {
  const rows = await rowsOf<Omit<KnownEvent, 'occurredAt'> & { at: number }>(tx, query)
  return rows.map(({ at, ...row }) => ({ ...row, occurredAt: new Date(at) }))
}

/** When a stored event happened that may be the same as one of these. */
function timesAround(events: readonly CrmEvent[]): { from: SQL; until: SQL } {
  const times = events.map(({ occurredAt }) => occurredAt.getTime())
  const time = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`
  return {
    from: time(Math.min(...times) - toleranceMs),
    until: time(Math.max(...times) + toleranceMs),
  }
}

/** Returns the events that are not stored yet. */
async function withoutKnown(tx: Executor, { events, near }: FoundEvents): Promise<CrmEvent[]> {
  if (events.length === 0) return []
  const { from, until } = timesAround(events)
  const known = await knownEvents(
    tx,
    sql`select known.* from ${dealsOf(events)} cross join lateral (
          select ${knownColumns}, greatest(${from} - occurred_at, occurred_at - ${until}) as away
          from deal_events
          where account_id = deal."accountId" and deal_id = deal."dealId"
            and occurred_at between ${from} and ${until}
          offset 0
        ) as known
        order by away limit ${mostKnown}`,
  )
  const found = sameChanges([...events, ...near], known)
  return events.filter((event) => !found.has(event))
}

/**
 * Inserts events from webhooks, except those that a search has found before. Such an event gets the key
 * of the webhook, so that it also counts as stored if the webhook comes again. It also gets the deliveries
 * to users who were not connected at its time, because a webhook is for every user who is connected now.
 */
async function insertUnlessFound(
  tx: Executor,
  providers: Providers,
  events: readonly CrmEvent[],
): Promise<void> {
  const keys = sql.param(events.map(({ key }) => key))
  const stored = await rowsOf<{ key: string }>(
    tx,
    sql`select key from deal_events where key = any(${keys}::text[])`,
  )
  const storedKeys = new Set(stored.map(({ key }) => key))
  const byKey = new Map(events.map((event) => [event.key, event]))
  const fresh = [...byKey.values()].filter(({ key }) => !storedKeys.has(key))
  if (fresh.length === 0) return

  const { from, until } = timesAround(fresh)
  // Another transaction may handle a copy of the webhook. This waits until it has set the key.
  const found = await knownEvents(
    tx,
    sql`select ${knownColumns} from deal_events
        where found_by = 'search' and occurred_at between ${from} and ${until}
          and id in (
            select found.id from ${dealsOf(fresh)} cross join lateral (${foundOf(sql`deal`)}) as found
          )
        order by id for update`,
  )
  const same = sameChanges(fresh, found)
  const targets = await targetsOf(tx, providers, fresh, 'shared')
  const pairs = [...same].map(([{ key }, { id }]) => ({ id, key }))
  const made = await rowsOf<{ channel: string }>(
    tx,
    sql`with stored as (
          update deal_events set key = pair.key, found_by = 'webhook'
          from json_to_recordset(${JSON.stringify(pairs)}::json) as pair(id bigint, key text)
          where deal_events.id = pair.id
          returning deal_events.id, crm, account_id, occurred_at
        )
        ${deliverStored(targets)} on conflict (event_id, user_id) do nothing returning channel`,
  )
  const others = fresh.filter((event) => !same.has(event))
  const channels = made.map(({ channel }) => channel)
  await insertEvents(tx, others, targets, { foundBy: 'webhook', channels })
}

/** The deals of these events and those that were merged into them, each once, as a table `deal`. */
function dealsOf(events: readonly CrmEvent[]): SQL {
  const ids = new Map(
    events.flatMap(({ accountId, ...deal }) =>
      dealIdsOf(deal).map((dealId) => [`${accountId}/${dealId}`, { accountId, dealId }]),
    ),
  )
  return sql`json_to_recordset(${JSON.stringify([...ids.values()])}::json)
    as deal("accountId" text, "dealId" text)`
}

const columnsOf = (alias: 'crm' | 'chat') => ({
  provider: sql.raw(`${alias}.provider`),
  standIn: sql.raw(`${alias}.stand_in`),
})

const byTime = (a: DealEvent, b: DealEvent) =>
  a.occurredAt.getTime() - b.occurredAt.getTime() ||
  Number(a.dealId) - Number(b.dealId) ||
  (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
