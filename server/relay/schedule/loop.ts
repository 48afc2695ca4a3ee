// `schedule/` gets the channels that are due from the database, and decides which of them this process works on. The
// loop leases a channel, calls `work` until the next step is another one than 'go on', and releases the channel. It
// returns nothing. At most one process works on a channel at a time. A channel with a pending delivery is worked on
// again, also after a crash.

import { setTimeout as delay } from 'node:timers/promises'
import { errorFields } from '../../log.ts'
import type { RelayParts } from '../parts.ts'
import {
  endAllLeases,
  endRests,
  leaseDue,
  type Release,
  releaseLeases,
  renewLeases,
} from './channels.ts'

/** What a channel needs after the work on its next delivery. */
export type NextStep =
  /** `failing`: a try has failed. */
  | { kind: 'go on'; failing?: boolean }
  /** All that waits in it must wait so long. `failing`: because a try has failed. */
  | { kind: 'rest'; ms: number; failing?: boolean }
  /** The channel has no pending delivery, or this process has lost its lease. */
  | { kind: 'done' }

export const goOn: NextStep = { kind: 'go on' }
export const done: NextStep = { kind: 'done' }
export const whileLeased = (isLeased: boolean): NextStep => (isLeased ? goOn : done)

/** The most channels that one process works on at the same time. */
const maxChannels = 500
/** Those of them that are failing. A try may wait ten seconds for an answer, and must not keep the others waiting. */
const maxFailing = 200
/**
 * The most channels of one lease call. It is small, so that other processes get a share of a burst.
 */
const leaseAtOnce = 10
/** Those of them that became due last. */
const lastAtOnce = 3
/** A channel is released after this long, so that processes share the work. */
const sliceMs = 5_000
const renewEveryMs = 3_000
/** The wait of a channel after an unexpected error. */
const afterErrorMs = 10_000
/** If the database's clock goes back by more than this, it was put right. */
const clockToleranceMs = 10_000

/** Creates the loop that leases due channels and calls `work` for the next delivery of each. */
export function createLoop({
  database,
  log,
  alone,
  times,
  processId,
  work,
}: Omit<RelayParts, 'isStopping'> & { work: (channel: string) => Promise<NextStep> }) {
  const working = new Map<string, Promise<void>>()
  const failing = new Set<string>()
  let releases: Release[] = []
  let stopping = false
  /** Whether to look for due channels. */
  let due = true
  let timesWoken = 0
  let looks = 0
  let endRest: (() => void) | undefined
  let running: Promise<void> | undefined
  let renewing: NodeJS.Timeout | undefined
  let turnedAt = Number.NEGATIVE_INFINITY
  /**
   * How far the database's clock is ahead of `performance.now()`, at least. At a start, nobody knows what it said before:
   * the first look counts as one after the clock was put back.
   */
  let aheadMs = Number.POSITIVE_INFINITY

  /** Tells the loop that a channel is due now. */
  function wake(): void {
    timesWoken++
    due = true
    endRest?.()
  }

  /** Waits for a call of `wake`, for the end of the work on a channel, or for the next poll. */
  async function rest(): Promise<void> {
    if (stopping || releases.length > 0 || (due && working.size < maxChannels)) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      endRest = resolve
      timer = setTimeout(() => {
        due = true
        resolve()
      }, times.pollMs)
    })
    clearTimeout(timer)
    endRest = undefined
  }

  async function workOn(channel: string): Promise<void> {
    const wokenBefore = timesWoken
    let release: Omit<Release, 'channel'>
    try {
      release = await workUntilRest(channel)
    } catch (error) {
      log.error('channel failed', { channel, ...errorFields(error) })
      release = { againMs: afterErrorMs, failing: true }
    }
    releases.push({ channel, ...release })
    // If `wake` was called for this channel during its lease, nothing could be leased. Look again.
    if (timesWoken > wokenBefore || release.againMs === 0) due = true
    working.delete(channel)
    failing.delete(channel)
    endRest?.()
  }

  async function workUntilRest(channel: string): Promise<Omit<Release, 'channel'>> {
    const sliceEnd = performance.now() + sliceMs
    for (;;) {
      const next = await work(channel)
      if (next.kind === 'done') return {}
      const { failing = false } = next
      if (next.kind === 'rest') return { againMs: next.ms, failing }
      if (stopping || performance.now() > sliceEnd) return { againMs: 0, failing }
    }
  }

  async function releaseFinished(): Promise<void> {
    const finished = releases
    if (finished.length === 0) return
    releases = []
    try {
      await releaseLeases(database, processId, finished)
    } catch (error) {
      releases.push(...finished)
      throw error
    }
  }

  /** What rests would rest for as long as the clock was wrong. @param at what it said, at `askedAt` or later. */
  async function lookAtClock(at: number, askedAt: number): Promise<void> {
    if (at - askedAt < aheadMs - clockToleranceMs) await endRests(database)
    aheadMs = at - performance.now()
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
          looks++
          const most = {
            all: limit,
            failing: Math.max(0, Math.min(limit, maxFailing - failing.size)),
            // Each second time, so that they never take all places.
            last: (looks % 2) * Math.min(lastAtOnce, limit),
          }
          const askedAt = performance.now()
          const { channels, at } = await leaseDue(database, processId, most, held)
          leasedAll = channels.length === limit
          due ||= leasedAll
          for (const { id, failing: isFailing } of channels) {
            if (isFailing) failing.add(id)
            working.set(id, workOn(id))
          }
          await lookAtClock(at, askedAt)
        }
        turnedAt = performance.now()
      } catch (error) {
        log.error('relay loop failed', errorFields(error))
        due = true
        await delay(times.pollMs)
      }
      // During a burst, let the server handle webhooks before the next lease.
      if (leasedAll) await delay(2)
      else await rest()
    }
  }

  return {
    wake,
    isStopping: () => stopping,
    /** When the loop last looked for work without an error, by `performance.now()`. */
    turnedAt: () => turnedAt,
    async start(): Promise<void> {
      if (alone) await endAllLeases(database)
      renewing = setInterval(() => {
        renewLeases(database, processId, [...working.keys()]).catch((error) =>
          log.error('upkeep failed', errorFields(error)),
        )
      }, renewEveryMs)
      running = run()
    },
    async stop(): Promise<void> {
      stopping = true
      wake()
      clearInterval(renewing)
      await running
      await Promise.allSettled(working.values())
      await releaseFinished().catch((error) => log.error('relay loop failed', errorFields(error)))
    },
  }
}
