import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { deliveries } from '../database/schema.ts'
import { errorFields, type Log } from '../log.ts'
import type { Vault } from '../people/vault.ts'
import type { Providers } from '../providers/provider.ts'
import { leaseDue, type Release, releaseAllLeases, releaseLeases, renewLeases } from './channels.ts'
import { createDeliver } from './deliver.ts'
import { nextDelivery } from './deliveries.ts'
import { failpoint } from './failpoint.ts'
import type { RelayTimes } from './times.ts'

/** Channels that one process works on at once. Each sends one message a second. */
const maxChannels = 500
/** Few at a time, so that other processes get a share of a burst. */
const leaseAtOnce = 10
/** A channel is released after this long, so that processes share the work. */
const sliceMs = 5_000
const renewEveryMs = 3_000
/** A delivery that must wait holds up new events of other users in its channel no longer than this. */
const longestRestMs = 5_000
/** A channel whose work failed unexpectedly rests this long. */
const afterErrorMs = 10_000

export interface Relay {
  start(): Promise<void>
  /** Something is due now. */
  ring(): void
  /** Resolves when everything that is being sent is recorded. */
  stop(): Promise<void>
}

export interface RelayDependencies {
  database: Database
  vault: Vault
  providers: Providers
  log: Log
  /** No other process works on this database, so leases found at the start belong to a dead process. */
  alone: boolean
  times: RelayTimes
}

/** The relay leases channels that are due, and sends in each what is pending, in order. */
export function createRelay(dependencies: RelayDependencies): Relay {
  const { database, log, alone, times } = dependencies
  const owner = randomUUID()
  const deliver = createDeliver({ ...dependencies, owner, isStopping: () => stopping })
  const working = new Map<string, Promise<void>>()
  let releases: Release[] = []
  let stopping = false
  /** A channel may be due that was not looked for yet. */
  let due = true
  let rings = 0
  let wakeUp: (() => void) | undefined
  let running: Promise<void> | undefined
  const timers: NodeJS.Timeout[] = []

  function ring(): void {
    rings++
    due = true
    wakeUp?.()
  }

  /** Waits until someone rings, a channel is finished or the next poll is due. */
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
      log('channel failed', { channel, ...errorFields(error) })
      againMs = afterErrorMs
    }
    releases.push({ channel, ...(againMs !== undefined && { againMs }) })
    // While the channel was leased, a ring for it found nothing to lease.
    if (rings > ringsBefore || againMs === 0) due = true
    working.delete(channel)
    wakeUp?.()
  }

  /** @returns in how many ms the channel is due again; undefined when nothing is left in it. */
  async function workUntilRest(channel: string): Promise<number | undefined> {
    const sliceEnd = Date.now() + sliceMs
    for (;;) {
      const next = await nextDelivery(database, channel)
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
          const leased = await leaseDue(database, owner, limit)
          leasedAll = leased.length === limit
          due ||= leasedAll
          for (const channel of leased) working.set(channel, workOn(channel))
        }
      } catch (error) {
        log('relay loop failed', errorFields(error))
        due = true
        await delay(times.pollMs)
      }
      // Webhooks get a turn between two leases of a burst.
      if (leasedAll) await delay(2)
      else await rest()
    }
  }

  function every(ms: number, task: () => Promise<void>): void {
    timers.push(
      setInterval(() => {
        task().catch((error) => log('upkeep failed', errorFields(error)))
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
          .set({ sendingUntil: null })
          .where(sql`${deliveries.state} = 'pending' and ${deliveries.sendingUntil} is not null`)
      }
      every(renewEveryMs, async () => {
        if (working.size > 0) await renewLeases(database, owner)
      })
      running = run()
    },
    async stop() {
      stopping = true
      ring()
      for (const timer of timers) clearInterval(timer)
      await running
      await Promise.allSettled(working.values())
      await releaseFinished().catch((error) => log('relay loop failed', errorFields(error)))
    },
  }
}
