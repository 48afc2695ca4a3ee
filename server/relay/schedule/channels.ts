import { type SQL, sql } from 'drizzle-orm'
import type { Executor } from '../../database/open.ts'

// The table `channels` is the relay's schedule: `due_at` says when a channel has work, `leased_*` who works on it,
// and `next_at` when it accepts a message.

/**
 * Selects channels and locks their rows. Every statement that changes several channels locks them in this
 * order. Otherwise two statements could wait for each other.
 */
export const lockedChannels = (condition: SQL) =>
  sql`(select id from channels where ${condition} order by id for update)`

/** Makes channels due now. Call it in the transaction that adds deliveries, after adding them. */
export async function makeDue(tx: Executor, channels: readonly string[]): Promise<void> {
  if (channels.length === 0) return
  await tx.execute(makeDueFrom(sql`select unnest(${sql.param([...channels])}::text[]) as channel`))
}

/**
 * Returns the SQL that makes channels due now: those that `source` selects as `channel`. A new channel begins with the
 * pause of its workspace (pauses.ts).
 */
export function makeDueFrom(source: SQL): SQL {
  // Sort: it locks the rows in this order, as `lockedChannels` does.
  return sql`insert into channels (id, due_at, next_at, waits_since)
             select channel, now(), coalesce(workspace.next_at, now()), coalesce(workspace.waits_since, now())
             from (select distinct channel from (${source}) as source) as made_due
             left join lateral (
               select next_at, waits_since from channels where id = split_part(channel, '/', 1) || '/' limit 1
             ) as workspace on true
             order by channel
             on conflict (id) do update set due_at = least(channels.due_at, excluded.due_at)`
}
