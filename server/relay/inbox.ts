import { setImmediate as nextTurn } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../database/open.ts'
import type { DealEvent } from '../providers/hubspot/events.ts'
import { failpoint } from './failpoint.ts'
import type { WakeQueue } from './wake-queue.ts'

export interface Inbox {
  /** Resolves once the new ones among the events, and their jobs, are committed. */
  store(events: readonly DealEvent[]): Promise<void>
}

/** A transaction's cost is mostly its own, so webhooks that come during one share the next. */
const maxEventsAtOnce = 2_000

export function createInbox(
  { database, queue }: { database: Database; queue: WakeQueue },
  onStored: () => void,
): Inbox {
  interface Waiting {
    events: readonly DealEvent[]
    resolve: () => void
    reject: (error: unknown) => void
  }
  let waiting: Waiting[] = []
  let storing = false

  async function storeWaiting(): Promise<void> {
    storing = true
    while (waiting.length > 0) {
      await arrivals()
      let count = 0
      const batch = waiting.filter(({ events }, at) => {
        count += events.length
        return at === 0 || count <= maxEventsAtOnce
      })
      waiting = waiting.slice(batch.length)
      try {
        await storeEvents(
          { database, queue },
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

  /** PGlite works on this thread, so requests that came meanwhile are read only when it rests. */
  async function arrivals(): Promise<void> {
    let known: number
    do {
      known = waiting.length
      await nextTurn()
    } while (waiting.length > known)
  }

  return {
    store(events) {
      if (events.length === 0) return Promise.resolve()
      return new Promise((resolve, reject) => {
        waiting.push({ events, resolve, reject })
        if (!storing) void storeWaiting()
      })
    },
  }
}

interface Target {
  portal: string
  user: string
  channel: string
}

async function storeEvents(
  { database, queue }: { database: Database; queue: WakeQueue },
  events: readonly DealEvent[],
): Promise<void> {
  const portals = [...new Set(events.map(({ portalId }) => portalId))]
  await database.transaction(async (tx) => {
    const targets = await rowsOf<Target>(
      tx,
      sql`select crm.account_id as portal, crm.user_id as "user",
                 chat.account_id || '/' || coalesce(chat.channel_id, '') as channel
          from connections crm
          join connections chat on chat.user_id = crm.user_id and chat.provider = 'slack'
          where crm.provider = 'hubspot' and crm.account_id = any(${sql.param(portals)}::text[])`,
    )
    // Events of a portal that no user has connected are acknowledged and dropped.
    const connected = new Set(targets.map(({ portal }) => portal))
    const kept = events.filter(({ portalId }) => connected.has(portalId))
    if (kept.length === 0) return

    await lockChannels(tx, [...new Set(targets.map(({ channel }) => channel))])
    // In an order that follows from the events alone: two transactions with the same events then
    // wait for each other in one direction. What is inserted first is said first.
    const rows = kept
      .map(({ key, portalId, dealId, stageId, occurredAt }) => ({
        key,
        portal: portalId,
        deal: dealId,
        stage: stageId,
        at: occurredAt.toISOString(),
      }))
      .sort(
        (a, b) => compare(a.at, b.at) || Number(a.deal) - Number(b.deal) || compare(a.key, b.key),
      )
    const deliveries = await rowsOf<{ channel: string }>(
      tx,
      sql`with stored as (
            insert into deal_events (key, portal_id, deal_id, stage_id, occurred_at)
            select key, portal, deal, stage, at
            from json_to_recordset(${JSON.stringify(rows)}::json)
              as item(key text, portal text, deal text, stage text, at timestamptz)
            on conflict (key) do nothing
            returning id, portal_id, occurred_at
          ), made as (
            insert into deliveries (event_id, user_id, channel, occurred_at)
            select stored.id, target."user", target.channel, stored.occurred_at
            from stored
            join json_to_recordset(${JSON.stringify(targets)}::json)
              as target(portal text, "user" uuid, channel text) on target.portal = stored.portal_id
            order by stored.id
            returning channel
          )
          select distinct channel from made`,
    )
    failpoint('in transaction')
    await queue.wake(
      deliveries.map(({ channel }) => channel),
      { within: tx },
    )
  })
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

/** Locks the channels' rows, in one order for everyone, until the transaction ends. */
export async function lockChannels(
  tx: Pick<Database, 'execute'>,
  channels: readonly string[],
): Promise<void> {
  await tx.execute(
    sql`insert into channels (id)
        select id from unnest(${sql.param([...channels])}::text[]) as id order by id
        on conflict (id) do update set id = excluded.id`,
  )
}
