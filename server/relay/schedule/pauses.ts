import { type SQL, sql } from 'drizzle-orm'
import { createCache } from '../../cache.ts'
import type { CountCall } from '../../database/call-counter.ts'
import { rowWaitsUntil } from '../../database/clock.ts'
import type { Executor } from '../../database/open.ts'

// A message may have to wait for three things:
// - Its delivery is put off: `deliveries.not_before`. Then later deliveries of the user wait, too (pick/next.ts).
// - Its channel or its workspace has a pause: `channels.next_at`. pick/ reads it (`channelFreeAt`), so that the process
//   knows how long to wait. The claim checks it again (`wait_ms`), because it may have grown.
// - Its channel has no turn among the channels of its workspace. Each process gives turns to its channels. All processes
//   together send at one pace to each workspace.
//
// During a short wait (`shortWaitMs` in send/ready.ts) for a pause or a turn, the process keeps the channel. Otherwise
// the channel rests: the process releases it, and any process leases it later.

/** Slack accepts one message a second in a channel. */
const channelPaceMs = 1_000

/**
 * The messages per second of all channels of one workspace, and how many may come at once after a
 * pause. Slack has such a limit but does not document it. People report several hundred a minute.
 */
const perSecond = 5
const burst = 20

const intervalMs = 1_000 / perSecond
/** A turn that a channel does not use for this long is lost. Another process may have its lease. */
const keepTurnMs = 10_000
/** The size of each cache. A process cannot serve this many channels within `keepTurnMs`. */
const mostChannels = 20_000

const workspaceOf = (channel: string) => channel.slice(0, channel.indexOf('/'))

/**
 * Returns the SQL that delays the channel's next message to at least one second from now. With a name, it
 * also notes what the channel is called.
 */
export function pauseSql(channel: string, name?: string | null): SQL {
  return sql`update channels
             set ${name ? sql`name = ${name},` : sql``} waits_since = ${clock}, next_at = ${fromNow(channelPaceMs)}
             where id = ${channel}`
}

/**
 * Delays the next message of each channel of this channel's workspace. Slack counts per workspace when it asks for a
 * pause. The pause is one row for the workspace, which is read with that of each channel.
 */
export async function pauseWorkspace(
  database: Executor,
  channel: string,
  forMs: number,
): Promise<void> {
  await database.execute(
    sql`insert into channels (id, next_at, waits_since)
        values (${`${workspaceOf(channel)}/`}, ${fromNow(forMs)}, ${clock})
        on conflict (id) do update
        set next_at = greatest(${rowWaitsUntil(sql`channels`, clock)}, ${fromNow(forMs)}), waits_since = ${clock}`,
  )
}

// Use clock_timestamp(). now() is the start of the transaction, before it waited for locks.
const clock = sql`clock_timestamp()`

const fromNow = (ms: number) => sql`${clock} + make_interval(secs => ${ms / 1000})`

/**
 * Creates the turns in which this process's channels send. Each channel waits for its turn in its workspace, in
 * the order in which they first asked.
 * @param countCall counts the messages of all processes on the database. A channel whose turn has come waits longer if
 * there is no room.
 */
export function createWorkspaceTurns(
  countCall?: CountCall,
  now: () => number = () => performance.now(),
) {
  /** When the next new turn of a workspace is. */
  const nextTurn = createCache<number>(mostChannels)
  /** The turns of the channels that wait. */
  const turns = createCache<number>(mostChannels)

  return {
    /** Returns the wait in ms until the channel's turn. If it is 0, the channel has used its turn. */
    async take(channel: string): Promise<number> {
      const workspace = workspaceOf(channel)
      const time = now()
      let turn = turns.get(channel)
      if (turn === undefined || turn < time - keepTurnMs) {
        turn = Math.max(nextTurn.get(workspace) ?? 0, time - (burst - 1) * intervalMs)
        nextTurn.set(workspace, turn + intervalMs)
      }
      // Of several processes, each gives turns, so the sum may be too many.
      const ms =
        turn > time
          ? turn - time
          : ((await countCall?.(`messages ${workspace}`, burst, burst * intervalMs)) ?? 0)
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
