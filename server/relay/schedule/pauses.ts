import { type SQL, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { type Executor, lockedChannels } from './channels.ts'

// When a channel may get its next message. `channels.next_at` holds the pause of each channel, for all processes.
// Each process also has a pace for each workspace. A message waits for both:
// - `channelFreeAt` (pick/) is the end of the pause when the delivery was read, on the clock of this process.
// - `turnMs` (send/ready.ts) is the wait for the channel's turn in its workspace, if the channel has asked for a turn.
// - `shortWaitMs` (send/ready.ts) is the longest wait during which the process keeps the channel. For a longer one, it
//   releases the channel.
// - `wait_ms` (send/claim.ts) is what was left of the pause at the claim, on the clock of the database. The pause may
//   have grown meanwhile.

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

/** The workspace of a channel, whose id is `team/channel`. */
const workspaceOf = (channel: string) => channel.slice(0, channel.indexOf('/'))

/**
 * Returns the SQL that delays the channel's next message to at least one second from now. With a name, it
 * also notes what the channel is called.
 */
export function pause(channel: string, name?: string | null): SQL {
  return sql`${pauseFor(channelPaceMs, name)} where id = ${channel}`
}

/**
 * Delays the next message of each channel of this channel's workspace. Slack counts per workspace when it asks for a
 * pause. A row for the workspace itself keeps the pause for new channels (channels.ts).
 */
export async function pauseWorkspace(
  database: Executor,
  channel: string,
  forMs: number,
): Promise<void> {
  const workspace = `${workspaceOf(channel)}/`
  await database.execute(
    sql`insert into channels (id) values (${workspace}) on conflict do nothing`,
  )
  const isOfWorkspace = sql`starts_with(id, ${workspace})`
  await database.execute(sql`${pauseFor(forMs)} where id in ${lockedChannels(isOfWorkspace)}`)
}

// Use clock_timestamp(). now() is the start of the transaction, before it waited for locks.
const pauseFor = (forMs: number, name?: string | null) =>
  sql`update channels
      set ${name ? sql`name = ${name},` : sql``}
          next_at = greatest(next_at, clock_timestamp() + make_interval(secs => ${forMs / 1000}))`

/**
 * Creates the pace of this process's messages. Each channel waits for its turn in its workspace, in
 * the order in which they first asked. Other processes on the same database have their own pace.
 */
export function createWorkspacePace(now: () => number = () => performance.now()) {
  /** When the next new turn of a workspace is. */
  const nextTurn = new LRUCache<string, number>({ max: mostChannels })
  /** The turns of the channels that wait. */
  const turns = new LRUCache<string, number>({ max: mostChannels })

  return {
    /** Returns the wait in ms until the channel's turn. If it is 0, the channel has used its turn. */
    take(channel: string): number {
      const time = now()
      const workspace = workspaceOf(channel)
      let turn = turns.get(channel)
      if (turn === undefined || turn < time - keepTurnMs) {
        turn = Math.max(nextTurn.get(workspace) ?? 0, time - (burst - 1) * intervalMs)
        nextTurn.set(workspace, turn + intervalMs)
      }
      if (turn > time) {
        turns.set(channel, turn)
        return turn - time
      }
      turns.delete(channel)
      return 0
    },

    /** Returns the wait in ms for a channel that has asked for its turn before. Otherwise 0. Uses no turn. */
    waitOf(channel: string): number {
      return Math.max(0, (turns.peek(channel) ?? 0) - now())
    },
  }
}
