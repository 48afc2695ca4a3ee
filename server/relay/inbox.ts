import { setImmediate as nextTurn } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../database/open.ts'
import { isOfConfigured } from '../people/connections.ts'
import type { DealEvent, Providers } from '../providers/provider.ts'
import { type CrmId, chatIds } from '../providers/registry.ts'
import { makeDueFrom } from './channels.ts'
import { failpoint } from './failpoint.ts'

export interface Inbox {
  /** Stores the new events and their deliveries. Resolves after the commit. */
  store(crm: CrmId, events: readonly DealEvent[]): Promise<void>
}

type CrmEvent = DealEvent & { crm: CrmId }

/**
 * The most events of one transaction. A transaction costs more than its rows, so webhooks that
 * arrive during a transaction share the next one.
 */
const maxEventsAtOnce = 2_000

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
        return at === 0 || count <= maxEventsAtOnce
      })
      waiting = waiting.slice(batch.length)
      try {
        await storeEvents(
          database,
          providers,
          batch.flatMap(({ events }) => events),
        )
        for (const { resolve } of batch) resolve()
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
        const events = received.map((event) => ({ ...event, crm }))
        waiting.push({ events, resolve, reject })
        if (!storing) void storeWaiting()
      })
    },
  }
}

interface Target {
  crm: string
  account: string
  user: string
  channel: string
}

async function storeEvents(
  database: Database,
  providers: Providers,
  events: readonly CrmEvent[],
): Promise<void> {
  const accounts = [...new Set(events.map(({ accountId }) => accountId))]
  await database.transaction(async (tx) => {
    // A user may have connected more than one chat. Use the one that was connected last.
    const targets = await rowsOf<Target>(
      tx,
      sql`select distinct on (crm.id) crm.provider as crm, crm.account_id as account,
                 crm.user_id as "user", chat.account_id || '/' || coalesce(chat.channel_id, '') as channel
          from connections crm
          join connections chat on chat.user_id = crm.user_id
            and chat.provider = any(${sql.param([...chatIds])}::text[])
            and ${isOfConfigured(providers, columnsOf('chat'))}
          where crm.provider = any(${sql.param([...new Set(events.map(({ crm }) => crm))])}::text[])
            and crm.account_id = any(${sql.param(accounts)}::text[])
            and ${isOfConfigured(providers, columnsOf('crm'))}
          order by crm.id, chat.connected_at desc`,
    )
    // Drop events of an account that no user has connected. The server still acknowledges them.
    const connected = new Set(targets.map(({ crm, account }) => `${crm}/${account}`))
    const kept = events.filter(({ crm, accountId }) => connected.has(`${crm}/${accountId}`))
    if (kept.length === 0) return

    // Sort by the events alone, so that two transactions with the same events cannot deadlock. If
    // two events have the same time, the relay sends the one that was inserted first.
    const rows = kept
      .map(({ occurredAt, ...event }) => ({ ...event, at: occurredAt.toISOString() }))
      .sort(
        (a, b) =>
          compare(a.at, b.at) || Number(a.dealId) - Number(b.dealId) || compare(a.key, b.key),
      )
    await tx.execute(
      sql`with stored as (
            insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at)
            select key, crm, "accountId", "dealId", property, value, at
            from json_to_recordset(${JSON.stringify(rows)}::json)
              as item(key text, crm text, "accountId" text, "dealId" text, property text,
                      value text, at timestamptz)
            on conflict (key) do nothing
            returning id, crm, account_id, occurred_at
          ), made as (
            insert into deliveries (event_id, user_id, channel, occurred_at)
            select stored.id, target."user", target.channel, stored.occurred_at
            from stored
            join json_to_recordset(${JSON.stringify(targets)}::json)
              as target(crm text, account text, "user" uuid, channel text)
              on target.crm = stored.crm and target.account = stored.account_id
            order by stored.id
            returning channel
          )
          ${makeDueFrom(sql`select channel from made`)}`,
    )
    failpoint('in transaction')
  })
}

const columnsOf = (alias: 'crm' | 'chat') => ({
  provider: sql.raw(`${alias}.provider`),
  standIn: sql.raw(`${alias}.stand_in`),
})

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)
