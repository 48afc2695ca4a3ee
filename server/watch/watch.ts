// What an operator asks a running server: its metrics, and whether it can work (docs/operating/watching.md).

import { setTimeout as delay } from 'node:timers/promises'
import { Gauge, Registry } from '@prometheus-io/client'
import { sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import type { HasRoom } from '../database/room.ts'
import { dealEvents } from '../database/schema.ts'
import { errorFields, type Log } from '../log.ts'
import type { Providers } from '../providers/provider.ts'
import { providerIds } from '../providers/registry.ts'
import { countDeadFromZero, labelOf, registry } from './metrics.ts'
import { readStored, readTotals, type StoredTotals } from './stored.ts'

/** Longer than a slow statement, shorter than the time limits of load balancers and of Prometheus. */
const databaseWithinMs = 3_000
/** The relay looks for work twice a second. */
const turnWithinMs = 30_000
/**
 * All connections and accounts are counted at most once in this time, and for at most a hundredth of the time. Each
 * scrape would read a million rows to find out that hardly one has changed.
 */
const countEveryMs = 60_000
const countShare = 0.01

export type PoolCounts = Readonly<Record<'total' | 'idle' | 'waiting', number>>

/**
 * Asks the database one question at a time, however many ask for the answer: a database that hangs must not be asked ever
 * more. @returns undefined if it gives none, or none in time.
 */
export function shared<Answer>(
  ask: () => Promise<Answer>,
  log: Log,
): () => Promise<Answer | undefined> {
  let asking: Promise<Answer> | undefined
  return async () => {
    asking ??= ask().finally(() => {
      asking = undefined
    })
    try {
      return await Promise.race([asking, delay(databaseWithinMs, undefined, { ref: false })])
    } catch (error) {
      log.error('the database cannot be used', errorFields(error))
      return undefined
    }
  }
}

export type Watch = ReturnType<typeof createWatch>

export function createWatch({
  database,
  hasRoom,
  providers,
  pool,
  turnedAt,
  log,
}: {
  database: Database
  hasRoom: HasRoom
  providers: Providers
  pool: (() => PoolCounts) | undefined
  /** When the relay's loop last looked for work without an error, by `performance.now()`. */
  turnedAt: () => number
  log: Log
}) {
  const own = new Registry()
  const gauge = <Label extends string = never>(
    name: string,
    help: string,
    labelNames: Label[] = [],
  ) => new Gauge({ name: `dealbell_${name}`, help, labelNames, registers: [own] })

  const up = gauge(
    'database_up',
    'Whether the database answers within three seconds and takes what is written: 1 or 0.',
  )
  const connectionsOfPool = gauge(
    'database_pool_connections',
    'Connections of this process to PostgreSQL, and what waits for one.',
    ['state'],
  )
  const turnSeconds = gauge(
    'relay_turn_seconds',
    "Time since the relay's loop last looked for work.",
  )
  const pending = gauge(
    'deliveries_pending',
    'Deliveries that wait, in all processes; at most 10000 are counted.',
  )
  const oldestPending = gauge(
    'oldest_pending_seconds',
    'How long the oldest pending delivery has been waiting; 0 if none is.',
  )
  const waiting = gauge(
    'deliveries_waiting',
    'The oldest deliveries that wait, up to 1000, by reason; none if no try has failed.',
    ['reason'],
  )
  const channelsDue = gauge(
    'channels_due',
    'Channels that have work and that no process has leased; at most 10000 of each state are counted.',
    ['state'],
  )
  const lag = gauge('schedule_lag_seconds', 'For how long the first of them has been due.', [
    'state',
  ])
  const connections = gauge(
    'connections',
    'Connections of users: working, or broken because the provider no longer accepts them.',
    ['provider', 'state'],
  )
  const oldestSearch = gauge(
    'oldest_search_seconds',
    'Age of the last complete search for missed changes, of the account of which it is oldest.',
  )
  const budgetLeft = gauge(
    'crm_budget_left_ratio',
    'What is left of the tokens of this day, 0 to 1, of the account that has the smallest share left; none if the CRM counts no tokens.',
    ['crm'],
  )

  const turnAgeMs = () => performance.now() - turnedAt()

  const stored = shared(() => readStored(database), log)
  let counted: { totals: StoredTotals; until: number } | undefined
  const totals = shared(async () => {
    const began = performance.now()
    if (counted === undefined || began > counted.until) {
      const read = await readTotals(database)
      const now = performance.now()
      counted = { totals: read, until: now + Math.max(countEveryMs, (now - began) / countShare) }
    }
    return counted.totals
  }, log)
  const canStore = shared(async () => {
    // Writes no row. Yet a standby refuses it, and so does a database whose user may only read.
    await database.execute(
      sql`insert into ${dealEvents} (key) select key from ${dealEvents} where false`,
    )
    return true
  }, log)
  const isUp = async () => hasRoom() && (await canStore()) === true
  countDeadFromZero(providers)
  let isStopping = false

  return {
    contentType: registry.contentType,
    /** The metrics of this process and of the database, in the text format of Prometheus. */
    async metrics() {
      const [figures, slow, isUpNow] = await Promise.all([stored(), totals(), isUp()])
      own.resetMetrics()
      up.set(isUpNow && figures !== undefined ? 1 : 0)
      // Without an answer these are not known. A 0 would say that nothing waits.
      for (const metric of [pending, oldestPending, oldestSearch]) metric.remove()
      if (figures !== undefined) {
        pending.set(figures.pending)
        oldestPending.set(figures.oldestPendingS)
        for (const { reason, count } of figures.waiting) {
          waiting.inc({ reason: labelOf(reason, providers) }, count)
        }
        for (const { failing, count, lagS } of figures.due) {
          const state = failing ? 'failing' : 'working'
          channelsDue.set({ state }, count)
          lag.set({ state }, lagS)
        }
      }
      if (slow !== undefined) {
        oldestSearch.set(slow.oldestSearchS)
        for (const { crm, share } of slow.budgetsLeft) budgetLeft.set({ crm }, share)
        for (const provider of providerIds) {
          for (const state of ['working', 'broken']) connections.set({ provider, state }, 0)
        }
        for (const { provider, broken, count } of slow.connections) {
          connections.set({ provider, state: broken ? 'broken' : 'working' }, count)
        }
      }
      for (const [state, count] of Object.entries(pool?.() ?? {})) {
        connectionsOfPool.set({ state }, count)
      }
      turnSeconds.set(turnAgeMs() / 1000)
      return `${await own.metrics()}\n${await registry.metrics()}`
    },
    /** What prevents the server from working; empty if nothing does. */
    async unready(): Promise<string[]> {
      if (isStopping) return ['stopping']
      return [
        ...((await isUp()) ? [] : ['database']),
        ...(turnAgeMs() < turnWithinMs ? [] : ['relay']),
      ]
    },
    /** The server stops. From now on it is not ready. */
    stopping() {
      isStopping = true
    },
  }
}
