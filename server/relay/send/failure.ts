import { isDatabaseFailure } from '../../database/failure.ts'
import type { Database } from '../../database/open.ts'
import { errorFields, type Log } from '../../log.ts'
import type { CrmConnection } from '../../people/access-token.ts'
import { type Connection, markBroken } from '../../people/connections.ts'
import { ProviderError, type Providers } from '../../providers/provider.ts'
import type { Delivery, Group } from '../pick/delivery.ts'
import { goOn, type Outcome, whileLeased } from '../schedule/outcome.ts'
import type { RelayTimes } from '../times.ts'
import { type Delay, endBacklog, recordDelay, recordEnd } from './record.ts'

/** After this many failed tries, a delivery is dead. The tries take about two hours. */
const maxAttempts = 20
const longestRetryMs = 15 * 60_000

interface FailureDependencies {
  database: Database
  providers: Providers
  log: Log
  times: RelayTimes
  owner: string
  /** Deliveries whose digest the chat refused because of its form. */
  onlySingle: Set<number>
}

export type Failures = ReturnType<typeof createFailures>

/** Creates the functions for deliveries that get no message now: they end, or they are tried again. */
export function createFailures({
  database,
  providers,
  log,
  times,
  owner,
  onlySingle,
}: FailureDependencies) {
  /** Ends deliveries. Set `countTry` after a failed try. */
  async function end(
    group: readonly Delivery[],
    state: 'dead' | 'ignored',
    reason: string,
    { countTry } = { countTry: false },
  ): Promise<Outcome> {
    const [first, ...others] = group
    if (first === undefined) return goOn
    const ended = { state, reason, countTry }
    const isLeased = await recordEnd(database, owner, [first, ...others], ended)
    for (const delivery of group) {
      onlySingle.delete(delivery.id)
      const event = state === 'dead' ? 'delivery dead' : 'delivery ignored'
      log(event, { ...logFields(delivery), reason })
    }
    return whileLeased(isLeased)
  }

  /** Ends what waits for a connection that is broken. */
  async function endOfBroken(delivery: Delivery, broken: Connection): Promise<Outcome> {
    const ended = await endBacklog(database, owner, delivery, broken)
    const reason = broken.brokenReason
    log('delivery dead', { ...logFields(delivery), messages: ended ?? 0, reason })
    return whileLeased(ended !== undefined)
  }

  async function putOff(group: Group, delay: Delay): Promise<Outcome> {
    return whileLeased(await recordDelay(database, owner, group, delay))
  }

  /** Counts a failed try. The deliveries are tried again later, or are dead after the last try. */
  async function retry(group: Group, reason: string): Promise<Outcome> {
    // Those of a digest may have had different numbers of tries.
    const isLast = ({ attempts }: Delivery) => attempts + 1 >= maxAttempts
    const ended = await end(group.filter(isLast), 'dead', reason, { countTry: true })
    const [first, ...others] = group.filter((delivery) => !isLast(delivery))
    if (first === undefined) return ended
    const tries = first.attempts + 1
    const afterMs = retryAfterMs(tries, times.firstRetryMs)
    const outcome = await putOff([first, ...others], { afterMs, reason, countTry: true })
    log('delivery put off', { ...logFields(first), reason, tries, afterMs })
    return outcome
  }

  /** Handles an error before the message was posted. @throws the error if the database failed. */
  async function afterError(
    delivery: Delivery,
    crm: CrmConnection,
    error: unknown,
  ): Promise<Outcome> {
    // The whole channel rests: the next delivery needs the database, too.
    if (isDatabaseFailure(error)) throw error
    if (!(error instanceof ProviderError)) {
      // A bug in our code must not stop the channel.
      log('delivery failed', { ...logFields(delivery), ...errorFields(error) })
      return await retry([delivery], 'internal_error')
    }
    if (error.reason === 'disconnected') return await end([delivery], 'dead', 'disconnected')
    if (error.kind === 'refused') {
      const { reason: code = 'refused' } = error
      const isKnown = Object.hasOwn(providers[crm.provider].brokenReasons, code)
      // An unknown code needs the name of the CRM in front.
      const reason = isKnown || error.reason === undefined ? code : `${crm.provider}_${code}`
      await connectionBroke(crm, reason)
      return await end([delivery], 'dead', reason, { countTry: true })
    }
    if (error.retryAfterMs !== undefined) {
      return await putOff([delivery], {
        afterMs: error.retryAfterMs,
        reason: `${crm.provider}_rate_limited`,
        countTry: false,
      })
    }
    return await retry([delivery], `${crm.provider}_${error.reason ?? error.kind}`)
  }

  async function connectionBroke(connection: Connection, reason: string): Promise<void> {
    await markBroken(database, connection, reason)
    log('connection broken', { connection: connection.id, provider: connection.provider, reason })
  }

  return { end, endOfBroken, putOff, retry, afterError, connectionBroke }
}

/**
 * Returns the wait after the given number of failed tries, in ms. It doubles with each try, up to
 * 15 minutes. Half of it is random, so that deliveries that failed together try again at different
 * times.
 */
export function retryAfterMs(tries: number, firstMs: number, random = Math.random): number {
  const most = Math.min(firstMs * 2 ** (tries - 1), longestRetryMs)
  return Math.round(most / 2 + (most / 2) * random())
}

export function logFields({ id, eventId, crm, chat }: Delivery) {
  return { delivery: id, dealEvent: eventId, connections: [crm?.id, chat?.id] }
}
