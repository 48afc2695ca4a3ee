import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { isRefusedWithoutRoom } from '../../database/failure.ts'
import type { Database } from '../../database/open.ts'
import { deliveries } from '../../database/schema.ts'
import { errorFields, type Log } from '../../log.ts'
import type { Vault } from '../../people/vault.ts'
import type { Providers } from '../../providers/provider.ts'
import { failpoint } from '../failpoint.ts'
import { nextDelivery } from '../pick/deliveries.ts'
import { createDeliver } from '../send/deliver.ts'
import type { RelayTimes } from '../times.ts'
import { leaseDue, type Release, releaseAllLeases, releaseLeases, renewLeases } from './channels.ts'

/** The most channels that one process works on at the same time. */
const maxChannels = 500
/**
 * The most channels of one lease call. It is small, so that other processes get a share of a burst.
 */
const leaseAtOnce = 10
/** A channel is released after this long, so that processes share the work. */
const sliceMs = 5_000
const renewEveryMs = 3_000
/** The longest time until the relay looks again at a channel in which all deliveries must wait. */
const longestRestMs = 5_000
/** The wait of a channel after an unexpected error. */
const afterErrorMs = 10_000

export interface Relay {
  start(): Promise<void>
  /** Tells the relay that a channel is due now. */
  ring(): void
  /** Resolves after the results of all running calls are recorded. */
  stop(): Promise<void>
}

export interface RelayDependencies {
  database: Database
  vault: Vault
  providers: Providers
  log: Log
  /** True if no other process uses this database. Leases in it are then from a dead process. */
  alone: boolean
  times: RelayTimes
}

/** Creates the relay. It leases due channels and sends their pending deliveries in order. */
export function createRelay(dependencies: RelayDependencies): Relay {
  const { database, providers, log, alone, times } = dependencies
  const owner = randomUUID()
  const deliver = createDeliver({ ...dependencies, owner, isStopping: () => stopping })
  const working = new Map<string, Promise<void>>()
  let releases: Release[] = []
  let stopping = false
  /** Whether to look for due channels. */
  let due = true
  let rings = 0
  let wakeUp: (() => void) | undefined
  let running: Promise<void> | undefined
  const timers: NodeJS.Timeout[] = []

  /** While the disk has no room, the relay pauses: the database refuses each lease. That is logged once (watchDisk). */
  function logFailure(event: string, error: unknown, fields?: { channel: string }): void {
    if (!isRefusedWithoutRoom(error)) log(event, { ...fields, ...errorFields(error) })
  }

  function ring(): void {
    rings++
    due = true
    wakeUp?.()
  }

  /** Waits for a call of `ring`, for the end of the work on a channel, or for the next poll. */
  async function rest(): Promise<void> {
    if (stopping || releases.length > 0 || (due && working.size < maxChannels)) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      wakeUp = resolve
      timer = setTimeout(() => {
        due = true
        resolve()
      }, times.pollMs)
    })
    clearTimeout(timer)
    wakeUp = undefined
  }

  async function workOn(channel: string): Promise<void> {
    failpoint('taken', channel)
    const ringsBefore = rings
    let againMs: number | undefined
    try {
      againMs = await workUntilRest(channel)
    } catch (error) {
      logFailure('channel failed', error, { channel })
      againMs = afterErrorMs
    }
    releases.push({ channel, ...(againMs !== undefined && { againMs }) })
    // If `ring` was called for this channel during its lease, nothing could be leased. Look again.
    if (rings > ringsBefore || againMs === 0) due = true
    working.delete(channel)
    wakeUp?.()
  }

  /** @returns in how many ms the channel is due again; undefined if nothing in it is pending. */
  async function workUntilRest(channel: string): Promise<number | undefined> {
    const sliceEnd = Date.now() + sliceMs
    for (;;) {
      const next = await nextDelivery(database, providers, channel)
      if (next.kind === 'nothing') return undefined
      if (next.kind === 'wait') return Math.min(next.ms, longestRestMs)
      const state = await deliver(next.delivery)
      if (state.kind === 'done') return undefined
      if (state.kind === 'rest') return state.ms
      if (stopping || Date.now() > sliceEnd) return 0
    }
  }

  async function releaseFinished(): Promise<void> {
    const finished = releases
    if (finished.length === 0) return
    releases = []
    try {
      await releaseLeases(database, owner, finished)
    } catch (error) {
      releases.push(...finished)
      throw error
    }
  }

  async function run(): Promise<void> {
    while (!stopping) {
      let leasedAll = false
      try {
        await releaseFinished()
        const limit = Math.min(maxChannels - working.size, leaseAtOnce)
        if (due && limit > 0) {
          due = false
          const held = [...working.keys(), ...releases.map(({ channel }) => channel)]
          const leased = await leaseDue(database, owner, limit, held)
          leasedAll = leased.length === limit
          due ||= leasedAll
          for (const channel of leased) working.set(channel, workOn(channel))
        }
      } catch (error) {
        logFailure('relay loop failed', error)
        due = true
        await delay(times.pollMs)
      }
      // During a burst, let the server handle webhooks before the next lease.
      if (leasedAll) await delay(2)
      else await rest()
    }
  }

  function every(ms: number, task: () => Promise<void>): void {
    timers.push(
      setInterval(() => {
        task().catch((error) => logFailure('upkeep failed', error))
      }, ms),
    )
  }

  return {
    ring,
    async start() {
      if (alone) {
        await releaseAllLeases(database)
        await database
          .update(deliveries)
          // Keep the mark: deliveries that were one message stay one message (deliveriesFrom).
          .set({ sendingUntil: sql`now()` })
          .where(sql`${deliveries.state} = 'pending' and ${deliveries.sendingUntil} > now()`)
      }
      every(renewEveryMs, async () => {
        if (working.size > 0) await renewLeases(database, owner, [...working.keys()])
      })
      running = run()
    },
    async stop() {
      stopping = true
      ring()
      for (const timer of timers) clearInterval(timer)
      await running
      await Promise.allSettled(working.values())
      await releaseFinished().catch((error) => logFailure('relay loop failed', error))
    },
  }
}
