import { inArray, sql } from 'drizzle-orm'
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core'
import { type Background, repeatInBackground } from '../background.ts'
import { isOver } from '../database/clock.ts'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import { errorFields, type Log } from '../log.ts'
import type { Names } from '../providers/provider.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { isCrmId } from '../providers/registry.ts'
import { type AccessDependencies, createWithAccess } from './access-token.ts'
import { type Connection, namesOf, openSecrets } from './connections.ts'
import {
  accepted,
  againAfter,
  askAgainMs,
  checkEvery,
  inHours,
  isSame,
  recordRefusal,
} from './refusals.ts'
import { checkSubscriptions, createSubscribe } from './subscription.ts'

/**
 * The checks of a queue that one process makes at the same time. A provider that does not answer takes ten seconds of
 * each, so these end 1,440 in an hour: as many as become due of 34,000 connections.
 */
const atOnce = 4

/**
 * Each queue has its own places, so neither waits for the other: not those that somebody asked for (a refused
 * connection's second question, a new connection), and not the daily ones.
 */
const queues = ['asked', 'daily'] as const

/** What a check writes to its connection: when the next one is due, and what it has found. */
type Found = PgUpdateSetSource<typeof connections>
/** After a success, and after a failure. */
const daily = { checkAt: inHours(checkEvery), checkAsked: false }
const again = { checkAt: inHours(againAfter), checkAsked: false }

interface CheckTimes {
  pollMs: number
  askAgainMs: number
}

interface CheckDependencies extends AccessDependencies {
  log: Log
  /**
   * Makes the last message pending again that a user has missed since a time. Only a message shows whether a chat's
   * channel takes messages. Returns whether there is one.
   */
  sendLastAgain(database: Database, userId: string, since: Date): Promise<boolean>
}

/**
 * Creates the function that asks a provider whether it accepts a connection. It records a refusal, and returns what else is
 * to be written. It throws only if it cannot store that the provider refuses it. It logs every other failure.
 */
function createCheck(
  { database, vault, providers, log, sendLastAgain }: CheckDependencies,
  { askAgainMs }: Pick<CheckTimes, 'askAgainMs'>,
): (connection: Connection) => Promise<Found> {
  const withAccess = createWithAccess({ database, vault, providers })
  const subscribe = createSubscribe({ database, providers, log })

  /**
   * @returns undefined if only a message can show whether the chat accepts the connection. `isLate`: whether events may
   * be late.
   * @throws ProviderError if the provider refuses the connection or does not answer.
   */
  async function ask(connection: Connection): Promise<(Names & { isLate?: boolean }) | undefined> {
    const { provider, brokenSince } = connection
    if (isCrmId(provider)) {
      const crm = providers[provider]
      // As if the access token had expired: only a refresh proves that the app is still installed.
      const expired = { ...connection, provider, accessExpiresAt: new Date(0) }
      const isBroken = brokenSince !== null
      // While it is broken, its user is told nothing. So the check does not wait for calls to spare.
      return await withAccess(expired, isBroken ? 'fresh' : 'spare', async (access) => {
        if (isBroken) {
          // A read may have broken it. A deal with this id need not exist.
          await crm.stages(access)
          await crm.deal(access, '1', { history: undefined, links: true })
        }
        const isLate = await subscribe(expired, access)
        return { ...(await crm.names(access).catch(() => ({}))), isLate }
      })
    }
    const { check } = providers[provider]
    return await check?.(openSecrets(vault, connection), connection.channelId)
  }

  /** Lets the next message show whether a broken chat works again. @returns whether there is a message. */
  async function tryMessage(connection: Connection): Promise<boolean> {
    const { userId, provider, brokenSince } = connection
    if (brokenSince === null || isCrmId(provider)) return false
    await database.update(connections).set({ askAgainAt: sql`now()` }).where(isSame(connection))
    return await sendLastAgain(database, userId, brokenSince)
  }

  const isFinalFor = ({ provider }: Connection, reason: string | null) =>
    reason !== null && providers[provider].finalReasons?.has(reason) === true

  return async function check(connection) {
    const { id, provider, brokenSince } = connection
    // The provider wants no further call. Only a new connection helps.
    if (isFinalFor(connection, connection.brokenReason)) return daily
    try {
      const names = await ask(connection)
      const { isLate } = names ?? {}
      const { accountName, channelName } = namesOf(names ?? {})
      const isTried = await tryMessage(connection)
      if (brokenSince !== null && names !== undefined) {
        log('connection accepted again', { connection: id, provider })
      }
      return {
        ...(names !== undefined && !isTried && accepted),
        ...(accountName && { accountName }),
        ...(channelName && { channelName, channelNamedAt: sql`now()` }),
        // If events may be late, the check is made again, as one that has failed.
        ...(isLate ? again : daily),
      }
    } catch (error) {
      if (!(error instanceof ProviderError)) {
        log.warn('check failed', { connection: id, provider, ...errorFields(error) })
        return again
      }
      const { kind, reason } = error
      const fields = { connection: id, provider, kind, reason }
      const isRefused =
        kind === 'refused' &&
        reason !== undefined &&
        Object.hasOwn(providers[provider].brokenReasons, reason)
      if (!isRefused) {
        log.warn('check failed', fields)
        return again
      }
      const isFinal = isFinalFor(connection, reason)
      const isBroken = await recordRefusal(database, connection, reason, {
        afterMs: askAgainMs,
        isFinal,
      })
      if (isBroken) {
        log.warn('connection broken', fields)
        return daily
      }
      log('connection refused', fields)
      return { checkAt: sql`now() + make_interval(secs => ${askAgainMs / 1000})`, checkAsked: true }
    }
  }
}

export type Checks = ReturnType<typeof createChecks>

/**
 * Creates the daily checks of all connections. Nobody else notices that an app was uninstalled as long as there is
 * nothing to send, or that a broken connection works again. Each connection has its own time of day.
 */
export function createChecks(
  dependencies: CheckDependencies,
  times: CheckTimes = { pollMs: 5_000, askAgainMs },
) {
  const { database, providers, log } = dependencies
  const { pollMs } = times
  const check = createCheck(dependencies, times)
  let running: Background[] = []

  async function checkNext(queue: (typeof queues)[number]): Promise<number> {
    const connection = await takeNext(queue)
    if (connection === undefined) return pollMs
    const found = await check(connection)
    await database.update(connections).set(found).where(isSame(connection))
    return 0
  }

  function onError(error: unknown): number {
    log.error('checks failed', errorFields(error))
    return pollMs
  }

  let isStart = true
  /** Is for the start, and an hour later for those that were checked just before it. Then it waits as long as a timer can. */
  async function checkAllSubscriptions(signal: AbortSignal): Promise<number> {
    await checkSubscriptions(database, providers, signal)
    const againMs = isStart ? againAfter * 60 * 60_000 : 2 ** 31 - 1
    isStart = false
    return againMs
  }

  async function takeNext(queue: (typeof queues)[number]): Promise<Connection | undefined> {
    const { checkAt, checkAsked } = connections
    const isDue = isOver(checkAt, checkEvery * 60 * 60_000)
    const due = sql`(
      select id from ${connections} where ${checkAsked} = ${queue === 'asked'} and ${isDue}
      order by ${checkAt} limit 1 for update skip locked
    )`
    const [connection] = await database
      .update(connections)
      // If the process dies, the check is made again.
      .set({ ...again, checkAsked: true })
      .where(inArray(connections.id, due))
      .returning()
    return connection
  }

  return {
    start() {
      running = queues.flatMap((queue) =>
        Array.from({ length: atOnce }, () =>
          repeatInBackground(() => checkNext(queue), { firstMs: pollMs, onError }),
        ),
      )
      running.push(repeatInBackground(checkAllSubscriptions, { firstMs: pollMs, onError }))
    },
    async stop() {
      await Promise.all(running.map((each) => each.stop()))
    },
  }
}
