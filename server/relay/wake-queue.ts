import { randomUUID } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { type Db, fromDrizzle, PgBoss } from 'pg-boss'
import type { Database } from '../database/open.ts'
import type { Log } from '../log.ts'

const queue = 'relay'

/** A job: this channel has something to send. What and in which order is in `deliveries`. */
interface WakeUp {
  id: string
  channel: string
}

export interface WakeQueue {
  /**
   * Enqueues a job for each channel, in the caller's transaction where one is given. A channel has
   * one waiting job at most. The caller holds the lock of the channel's row, or the job that is
   * already waiting might be taken, and find nothing, before the caller's transaction ends.
   */
  wake(
    channels: readonly string[],
    options?: { afterMs?: number; within?: Transaction },
  ): Promise<void>
  /** Takes up to `limit` due jobs, of which no other process gets any. One job a channel is out. */
  take(limit: number): Promise<WakeUp[]>
  /** A job whose holder says nothing for ten seconds is given to another. */
  keep(jobs: readonly WakeUp[]): Promise<void>
  finish(jobs: readonly WakeUp[]): Promise<void>
  /** Gives up every job that is out. Only for who knows that no other process lives. */
  releaseAll(): Promise<void>
  stop(): Promise<void>
}

type Transaction = Pick<Database, 'execute'>

/** @param queueDatabase pg-boss's own view of the same database. */
export async function openWakeQueue(
  queueDatabase: Db,
  { embedded, log }: { embedded: boolean; log: Log },
): Promise<WakeQueue> {
  const boss = new PgBoss({
    db: queueDatabase,
    backend: embedded ? 'pglite' : 'postgres',
    schedule: false,
    // How soon a dead process's jobs are found once their ten seconds are over.
    superviseIntervalSeconds: 5,
    monitorIntervalSeconds: 5,
  })
  boss.on('error', (error) => log('queue error', { error: error.name }))
  boss.on('warning', (warning) => log('queue warning', { warning: warning.message }))
  await boss.start()
  await boss.createQueue(queue, {
    policy: 'short',
    // The deliveries count their own tries; a job only rings the bell.
    retryLimit: 1_000_000,
    retryDelay: 0,
    heartbeatSeconds: 10,
    expireInSeconds: 60 * 60,
    retentionSeconds: 60 * 60 * 24 * 30,
  })
  // pg-boss reads a queue's settings at its first use, over its own connection. Were that inside a
  // transaction of PGlite, which has one connection, it would wait for itself for ever.
  await boss.findJobs(queue, { id: randomUUID() })

  return {
    async wake(channels, { afterMs = 0, within } = {}) {
      if (channels.length === 0) return
      const jobs = channels.map((channel) => ({
        data: { channel },
        singletonKey: channel,
        group: { id: channel },
        // Seconds from the database's now, since clocks of machines differ.
        ...(afterMs > 0 && { startAfter: afterMs / 1000 }),
      }))
      await boss.insert(queue, jobs, {
        returnId: false,
        ...(within !== undefined && { db: fromDrizzle(asTransaction(within), sql) }),
      })
    },
    async take(limit) {
      const jobs = await boss.fetch<{ channel: string }>(queue, {
        batchSize: limit,
        groupConcurrency: 1,
      })
      return jobs.map(({ id, data }) => ({ id, channel: data.channel }))
    },
    async keep(jobs) {
      await boss.touch(queue, ids(jobs))
    },
    async finish(jobs) {
      // Deleted and not completed: the history of a channel is in its deliveries.
      await boss.deleteJob(queue, ids(jobs))
    },
    async releaseAll() {
      const jobs = await boss.findJobs<{ channel: string }>(queue)
      const out = jobs.filter(({ state }) => state === 'active')
      if (out.length > 0) await boss.deleteJob(queue, ids(out))
    },
    stop: () => boss.stop({ graceful: false, close: false }),
  }
}

// Both drivers answer with rows; the type that stands for either does not say so.
const asTransaction = (tx: Transaction) => tx as unknown as Parameters<typeof fromDrizzle>[0]

const ids = (jobs: ReadonlyArray<{ id: string }>) => jobs.map(({ id }) => id)
