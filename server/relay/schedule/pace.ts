import { LRUCache } from 'lru-cache'

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
export function workspaceOf(channel: string): string {
  return channel.slice(0, channel.indexOf('/'))
}

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
  }
}
