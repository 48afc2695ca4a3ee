import { waitReasons } from '../../server/relay/pick/delivery.ts'
import type { Played } from './checks.ts'
import { second } from './faults.ts'

// No channel starves: while nothing fails, what could be sent is sent soon.

/**
 * A channel whose process has died is taken by another one after 25 s. Otherwise, it waits for two looks for work (of ten seconds
 * in quiet times: for its pause and for its turn), and for one try of a message that fails.
 */
const longestWaitMs = 26 * second

/** The wait of this row of `channels` is over. */
const isOver = (row: string) =>
  `(${row}.next_at <= now() or ${row}.waits_since > now() + interval '10 seconds')`

/** (6): no channel starves. Looks at what could be sent; call it every few seconds. */
export function createStarvationCheck({ time, plan, database }: Played, isCalm: () => boolean) {
  // The others must not wait for what fails alone, once it has failed.
  const alone = plan.faults.flatMap((fault) => ('deals' in fault ? fault.deals : []))
  const since = new Map<string, { state: string; at: number }>()
  return (faultyUntil: (channel: string) => number): string[] => {
    if (!isCalm()) {
      since.clear()
      return []
    }
    const rows = database.ask<{ channel: string; state: string; free: boolean }>(
      `select channel, bool_or(is_free and ${isOver('channels')} and ${isOver('workspace')} is not false) as free,
              string_agg(first.id || ' ' || attempts || coalesce(not_before::text, ''), ',') as state
       from (
         select distinct on (channel, user_id) deliveries.id, channel, attempts, not_before,
                coalesce(not_before, now()) <= now() and (
                  coalesce(sending_until, now()) <= now() or sending_until > now() + interval '30 seconds'
                ) as is_free
         from deliveries join deal_events on deal_events.id = event_id
         where state = 'pending' and not (
           deal_id = any($1::text[]) and attempts > 0 and (alone or reason <> all($2::text[]) is true)
           and (sending_until > now() and sending_until <= now() + interval '30 seconds') is not true
         ) order by channel, user_id, deliveries.occurred_at, deliveries.id
       ) as first join channels on channels.id = channel
       left join channels as workspace on workspace.id = split_part(channel, '/', 1) || '/'
       group by channel order by channel`,
      [`{${alone.join()}}`, `{${waitReasons.join()}}`],
    )
    const free = new Set(rows.filter((row) => row.free).map(({ channel }) => channel))
    for (const channel of since.keys()) if (!free.has(channel)) since.delete(channel)
    return rows.flatMap(({ channel, state }): string[] => {
      if (!free.has(channel) || time.now < faultyUntil(channel)) {
        since.delete(channel)
        return []
      }
      const known = since.get(channel)
      if (known === undefined || known.state !== state) {
        since.set(channel, { state, at: time.now })
        return []
      }
      if (time.now - known.at < longestWaitMs || time.now - time.startMs < plan.endMs) return []
      return [`(6) ${channel} starves, with the deliveries (and their tries) ${state}`]
    })
  }
}
