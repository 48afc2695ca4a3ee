import { type SQL, sql } from 'drizzle-orm'
import { createCache } from '../../cache.ts'
import type { CountCall } from '../../database/call-counter.ts'
import { rowWaitsUntil } from '../../database/clock.ts'
import type { Executor } from '../../database/open.ts'
import type { Pace } from '../../providers/provider.ts'

// A message may have to wait for three things:
// - Its delivery is put off: `deliveries.not_before`. Then later deliveries of the user wait, too (pick/next.ts).
// - Its channel or the chat's account has a pause: `channels.next_at`. pick/ reads it (`channelFreeAt`), so that the process
//   knows how long to wait. The claim checks it again (`wait_ms`), because it may have grown.
// - Its channel has no turn among the channels of its account. Each process gives turns to its channels. All processes
//   together send at one pace to each account.
//
// During a short wait (`shortWaitMs` in send/ready.ts) for a pause or a turn, the process keeps the channel. Otherwise
// the channel rests: the process releases it, and any process leases it later.

/** A turn that a channel does not use for this long is lost. Another process may have its lease. */
const keepTurnMs = 10_000
/** The size of each cache. A process cannot serve this many channels within `keepTurnMs`. */
const mostChannels = 20_000

/** The chat's account, whose channels share a limit. */
const accountOf = (channel: string) => channel.slice(0, channel.indexOf('/'))

/**
 * Returns the SQL that delays the channel's next message as the chat's pace demands. With a name, it
 * also notes what the channel is called. If the channel rests for longer, the rest ends: it was for a delivery that this
 * process has now sent, after it had lost its lease.
 */
export function pauseSql(channel: string, { channelMs }: Pace, name?: string | null): SQL {
  return sql`update channels
             set ${name ? sql`name = ${name},` : sql``} waits_since = ${clock}, next_at = ${fromNow(channelMs)},
                 due_at = case when due_at > ${clock} then ${clock} else due_at end
             where id = ${channel}`
}

/**
 * Delays the next message of each channel of this channel's account. The pause is one row for the account, which is read
 * with that of each channel.
 */
export async function pauseAccount(
  database: Executor,
  channel: string,
  forMs: number,
): Promise<void> {
  await database.execute(
    sql`insert into channels (id, next_at, waits_since)
        values (${`${accountOf(channel)}/`}, ${fromNow(forMs)}, ${clock})
        on conflict (id) do update
        set next_at = greatest(${rowWaitsUntil(sql`channels`, clock)}, ${fromNow(forMs)}), waits_since = ${clock}`,
  )
}

// Use clock_timestamp(). now() is the start of the transaction, before it waited for locks.
const clock = sql`clock_timestamp()`

const fromNow = (ms: number) => sql`${clock} + make_interval(secs => ${ms / 1000})`

/**
 * Creates the turns in which this process's channels send. Each channel waits for its turn in its account, in
 * the order in which they first asked.
 * @param countCall counts the messages of all processes on the database. A channel whose turn has come waits longer if
 * there is no room.
 */
export function createTurns(countCall?: CountCall, now: () => number = () => performance.now()) {
  /** When the next new turn of an account is. */
  const nextTurn = createCache<number>(mostChannels)
  /** The turns of the channels that wait. */
  const turns = createCache<number>(mostChannels)

  return {
    /** Returns the wait in ms until the channel's turn. If it is 0, the channel has used its turn. */
    async take(channel: string, { perSecond, burst }: Pace): Promise<number> {
      const intervalMs = 1_000 / perSecond
      const account = accountOf(channel)
      const time = now()
      let turn = turns.get(channel)
      if (turn === undefined || turn < time - keepTurnMs) {
        turn = Math.max(nextTurn.get(account) ?? 0, time - (burst - 1) * intervalMs)
        nextTurn.set(account, turn + intervalMs)
      }
      // Of several processes, each gives turns, so the sum may be too many.
      const ms =
        turn > time
          ? turn - time
          : ((await countCall?.(`messages ${account}`, burst, burst * intervalMs)) ?? 0)
      if (ms === 0) turns.delete(channel)
      else turns.set(channel, time + ms)
      return ms
    },

    /** Returns the wait in ms for a channel that has asked for its turn before. Otherwise 0. Uses no turn. */
    waitOf(channel: string): number {
      const turn = turns.peek(channel)
      return turn === undefined ? 0 : Math.max(0, turn - now())
    },
  }
}
