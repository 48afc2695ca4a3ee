import { sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { channels, dealEvents, deliveries } from '../database/schema.ts'

/** HubSpot repeats an event for a day. After 30 days, even a dead delivery is only history. */
const keepDays = 30

/** Deletes old events with their deliveries, and old channels without deliveries. */
export async function deleteOld(database: Database): Promise<void> {
  await database.execute(
    sql`delete from ${dealEvents} e
        where e.received_at < now() - make_interval(days => ${keepDays})
          and not exists (
            select from ${deliveries} d where d.event_id = e.id and d.state = 'pending'
          )`,
  )
  await database.execute(
    sql`delete from ${channels} c
        where c.next_at < now() - make_interval(days => ${keepDays})
          and c.leased_until is null
          and not exists (select from ${deliveries} d where d.channel = c.id)`,
  )
}
