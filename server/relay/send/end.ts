import type { Database } from '../../database/open.ts'
import type { Log } from '../../log.ts'
import type { Connection } from '../../people/connections.ts'
import type { Providers } from '../../providers/provider.ts'
import { countEnded } from '../../watch/metrics.ts'
import type { Delivery, Group } from '../pick/delivery.ts'
import { goOn, type NextStep, whileLeased } from '../schedule/next-step.ts'
import { endBacklog, endSaid, type PutOff, recordEnd, recordPutOff } from './record.ts'

const reportEveryMs = 60_000

interface EndDependencies {
  database: Database
  providers: Providers
  log: Log
  processId: string
}

export type Ends = ReturnType<typeof createEnds>

/** Creates the functions for deliveries that get no message now: they end as ignored or dead, or they are put off. */
export function createEnds({ database, providers, log, processId }: EndDependencies) {
  /** How many deliveries were ignored since the last report, by reason. */
  const ignored = new Map<string, number>()
  let reporting: NodeJS.Timeout | undefined

  /** Sums them up: one edit in bulk ends thousands. */
  function reportIgnored(): void {
    clearTimeout(reporting)
    reporting = undefined
    if (ignored.size > 0) log('deliveries ignored', { reasons: Object.fromEntries(ignored) })
    ignored.clear()
  }

  function count(state: 'dead' | 'ignored', reason: string, ended: number): void {
    countEnded(state, reason, ended, providers)
    if (state === 'dead' || ended === 0) return
    ignored.set(reason, (ignored.get(reason) ?? 0) + ended)
    reporting ??= setTimeout(reportIgnored, reportEveryMs).unref()
  }

  return {
    /** Ends deliveries. Set `countTry` after a failed try. `countAs` is the reason in the metrics. */
    async end(
      group: readonly Delivery[],
      state: 'dead' | 'ignored',
      reason: string,
      { countTry = false, countAs = reason }: { countTry?: boolean; countAs?: string } = {},
    ): Promise<NextStep> {
      const [first, ...others] = group
      if (first === undefined) return goOn
      const { ended, isLeased } = await recordEnd(database, processId, [first, ...others], {
        state,
        reason,
        countTry,
      })
      // Another process may have ended the rest, and has counted it.
      count(state, countAs, ended.length)
      for (const delivery of group.filter(({ id }) => ended.includes(id))) {
        const event = state === 'dead' ? 'delivery dead' : 'delivery ignored'
        log(event, { ...logFields(delivery), reason })
      }
      return whileLeased(isLeased)
    },

    /** Ends what waits for a connection that is broken. */
    async endOfBroken(delivery: Delivery, broken: Connection): Promise<NextStep> {
      const ended = await endBacklog(database, processId, delivery, broken)
      const reason = broken.brokenReason
      if (ended !== undefined) count('dead', reason ?? '', ended)
      log('delivery dead', { ...logFields(delivery), messages: ended ?? 0, reason })
      return whileLeased(ended !== undefined)
    },

    /** Ends the deliveries of the same events to other users, if the channel has a message about them. */
    async endSaid(group: Group): Promise<void> {
      count('ignored', 'said_in_channel', await endSaid(database, group))
    },

    async putOff(group: Group, options: PutOff): Promise<NextStep> {
      return whileLeased(await recordPutOff(database, processId, group, options))
    },

    /** Logs what was ignored since the last report. */
    reportIgnored,
  }
}

export function logFields({ id, eventId, crm, chat }: Delivery) {
  return { delivery: id, dealEvent: eventId, connections: [crm?.id, chat?.id] }
}
