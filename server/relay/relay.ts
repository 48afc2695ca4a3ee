import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, isNull, sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { channels, connections, dealEvents, deliveries } from '../database/schema.ts'
import type { Log } from '../log.ts'
import { createAccessTokens } from '../people/access-token.ts'
import { openSecrets } from '../people/connections.ts'
import type { Vault } from '../people/vault.ts'
import { type Chat, type Crm, ProviderError } from '../providers/provider.ts'
import { createOwnerCache, createStageCache, formerStageId, moveBetween } from './deal-lookup.ts'
import { decide } from './decide.ts'
import {
  type Connection,
  claim,
  type Delivery,
  moveToChannel,
  nextDelivery,
  noteEnd,
  noteLater,
  noteRateLimit,
  noteSent,
  waitForAdded,
} from './deliveries.ts'
import { failpoint } from './failpoint.ts'
import { messageFor } from './message.ts'
import type { WakeQueue } from './wake-queue.ts'

export interface RelayTimes {
  /** Links follow a new deal by seconds: a deal without any is looked at again so long after. */
  lookAgainMs: number
  /** The first wait after a failure; it doubles with each. */
  firstRetryMs: number
  /** How often the queue is asked when nothing rings. */
  pollMs: number
}

export const relayTimes: RelayTimes = { lookAgainMs: 5_000, firstRetryMs: 1_000, pollMs: 500 }

/** A delivery is dead after so many failed tries, which take about two hours. */
const maxAttempts = 20
const longestRetryMs = 15 * 60_000
/** Channels that one process works on at once; each sends one message a second. */
const maxChannels = 500
/** Few at a time, so that another process gets its part of a burst. */
const takeAtOnce = 10
/** A channel is given back after a while, so that processes share the work. */
const sliceMs = 5_000
const keepEveryMs = 3_000
/** A wait up to this is spent in place: giving the channel back and taking it again costs more. */
const shortWaitMs = 1_100
/** A user's own wait must not hold up another user's new event in the same channel for long. */
const longestHeldMs = 5_000
const sweepEveryMs = 60_000
/** HubSpot repeats an event for a day; what is older is only history, a dead delivery too. */
const keepDays = 30

export interface Relay {
  start(): Promise<void>
  /** Something is due now. */
  ring(): void
  /** Ends when what is being sent is noted. */
  stop(): Promise<void>
}

export interface RelayDependencies {
  database: Database
  vault: Vault
  crm: Crm
  chat: Chat
  queue: WakeQueue
  log: Log
  /** No other process works on this database, so what is out at the start belongs to a dead one. */
  alone: boolean
  times?: RelayTimes
}

/** Takes channels from the queue, and says in each what there is to say, in order. */
export function createRelay(dependencies: RelayDependencies): Relay {
  const { database, queue, log, alone, times = relayTimes } = dependencies
  const work = createChannelWork({ ...dependencies, times }, () => stopping)
  const taken = new Map<string, { id: string; channel: string }>()
  const working = new Set<Promise<void>>()
  let finished: Array<{ id: string; channel: string }> = []
  let stopping = false
  /** Whether the queue may have something that it was not asked for yet. */
  let due = true
  let rings = 0
  let wakeUp: (() => void) | undefined
  let running: Promise<void> | undefined
  const timers = new Set<NodeJS.Timeout>()

  function ring(): void {
    rings++
    due = true
    wakeUp?.()
  }

  function ringIn(ms: number): void {
    const timer = setTimeout(() => {
      timers.delete(timer)
      ring()
    }, ms)
    timers.add(timer)
  }

  /** Until someone rings, a job is done, or a poll is due. */
  async function rest(): Promise<void> {
    if (stopping || finished.length > 0 || (due && taken.size < maxChannels)) return
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

  async function workOn(job: { id: string; channel: string }): Promise<void> {
    taken.set(job.id, job)
    failpoint('taken', job.channel)
    const before = rings
    try {
      const againMs = await work(job.channel)
      if (againMs !== undefined) {
        // Enqueued before the job is finished: a crash between them costs one idle job.
        await queue.wake([job.channel], { afterMs: againMs })
        ringIn(againMs + 5)
      }
      finished.push(job)
      // The channel's next job could not be taken while this one was out.
      due ||= rings > before
      wakeUp?.()
    } catch (error) {
      // The job stays out, so that it is taken again after its ten seconds and not at once.
      log('channel failed', { channel: job.channel, ...errorFields(error) })
    } finally {
      taken.delete(job.id)
    }
  }

  async function finishDone(): Promise<void> {
    const done = finished
    if (done.length === 0) return
    finished = []
    try {
      await queue.finish(done)
    } catch (error) {
      finished.push(...done)
      throw error
    }
  }

  async function run(): Promise<void> {
    while (!stopping) {
      let full = false
      try {
        await finishDone()
        const free = Math.min(maxChannels - taken.size, takeAtOnce)
        if (due && free > 0) {
          due = false
          const jobs = await queue.take(free)
          full = jobs.length === free
          due ||= full
          if (jobs.length > 0)
            await waitForAdded(
              database,
              jobs.map(({ channel }) => channel),
            )
          for (const job of jobs) {
            const one = workOn(job).finally(() => working.delete(one))
            working.add(one)
          }
        }
      } catch (error) {
        log('queue failed', errorFields(error))
        due = true
        await delay(times.pollMs)
      }
      if (full) await delay(2)
      else await rest()
    }
  }

  function every(ms: number, task: () => Promise<void>): void {
    const timer = setInterval(() => {
      task().catch((error) => log('upkeep failed', errorFields(error)))
    }, ms)
    timers.add(timer)
  }

  return {
    ring,
    async start() {
      if (alone) {
        await queue.releaseAll()
        await database
          .update(deliveries)
          .set({ sendingUntil: null })
          .where(sql`${deliveries.state} = 'pending' and ${deliveries.sendingUntil} is not null`)
      }
      await wakePending({ database, queue })
      every(keepEveryMs, async () => {
        if (taken.size > 0) await queue.keep([...taken.values()])
      })
      every(sweepEveryMs, async () => {
        await wakePending({ database, queue })
        await forgetOld(database)
      })
      running = run()
    },
    async stop() {
      stopping = true
      ring()
      for (const timer of timers) clearTimeout(timer)
      await running
      await Promise.allSettled(working)
      await finishDone().catch((error) => log('queue failed', errorFields(error)))
    },
  }
}

/** Wakes every channel with something pending. Those that have a job keep the one they have. */
async function wakePending({
  database,
  queue,
}: {
  database: Database
  queue: WakeQueue
}): Promise<void> {
  const pending = await database
    .selectDistinct({ channel: deliveries.channel })
    .from(deliveries)
    .where(eq(deliveries.state, 'pending'))
  await queue.wake(pending.map(({ channel }) => channel))
}

/** Forgets events that are only history, with what became of them, and channels that nothing is in. */
export async function forgetOld(database: Database): Promise<void> {
  await database.execute(
    sql`delete from ${dealEvents} e
        where e.received_at < now() - make_interval(days => ${keepDays})
          and not exists (
            select from ${deliveries} d where d.event_id = e.id and d.state = 'pending'
          )`,
  )
  await database.execute(
    sql`delete from ${channels} c
        where c.next_at < now() - make_interval(days => ${keepDays})
          and not exists (select from ${deliveries} d where d.channel = c.id)`,
  )
}

/** Works on one channel until nothing is left or its slice is over. */
function createChannelWork(
  { database, vault, crm, chat, queue, log, times }: Required<RelayDependencies>,
  isStopping: () => boolean,
) {
  const accessToken = createAccessTokens({ database, vault, crm })
  const stagesOf = createStageCache(crm)
  const ownerName = createOwnerCache(crm)

  /** @returns after how long the channel is due again; undefined when it has nothing left. */
  return async function work(channel: string): Promise<number | undefined> {
    const sliceEnd = Date.now() + sliceMs
    for (;;) {
      const next = await nextDelivery(database, channel)
      if (next.kind === 'nothing') return undefined
      if (next.kind === 'wait') return Math.min(next.ms, longestHeldMs)
      const then = await deliver(next.delivery)
      if (then === 'empty') return undefined
      if (then !== undefined) return then
      if (isStopping() || Date.now() > sliceEnd) return 0
    }
  }

  /** @returns how long the channel must rest, when it must, or that nothing is left in it. */
  async function deliver(delivery: Delivery): Promise<number | 'empty' | undefined> {
    const { hubspot, slack, channel } = delivery
    if (hubspot === null || slack === null) return await end(delivery, 'dead', 'disconnected')
    if (hubspot.accountId !== delivery.portalId) {
      return await end(delivery, 'ignored', 'another_account')
    }
    const broken = hubspot.brokenReason ?? slack.brokenReason
    if (broken !== null) return await end(delivery, 'dead', broken)
    const current = `${slack.accountId}/${slack.channelId ?? ''}`
    if (current !== channel) {
      await moveToChannel({ database, queue }, delivery, current)
      return undefined
    }
    if (slack.channelId === null) return await end(delivery, 'dead', 'no_channel')
    if (delivery.ruleIds.length === 0) return await end(delivery, 'ignored', 'no_rule')

    try {
      return await say(delivery, hubspot, slack, slack.channelId)
    } catch (error) {
      if (error instanceof ProviderError) return await afterCrmFailure(delivery, hubspot, error)
      // A mistake of ours must not stop the channel.
      log('delivery failed', { ...logFields(delivery), ...errorFields(error) })
      return await retry(delivery, 'internal_error', { countTry: true })
    }
  }

  async function say(
    delivery: Delivery,
    hubspot: Connection,
    slack: Connection,
    slackChannel: string,
  ): Promise<number | 'empty' | undefined> {
    const token = await accessToken(hubspot)
    const deal = await crm.deal(token, delivery.dealId)
    if (deal === undefined) return await end(delivery, 'ignored', 'no_such_deal')
    const from = formerStageId(deal.stageHistory, delivery)
    const ids = [delivery.stageId, ...(from ? [from] : [])]
    const stages = await stagesOf(hubspot.accountId, token, ids)
    const move = moveBetween(stages, { from, to: delivery.stageId, linked: deal.linked })
    const decision = decide(move, new Set(delivery.ruleIds), {
      mayLookAgain: delivery.ageMs < times.lookAgainMs,
    })
    if (decision.kind === 'nothing') return await end(delivery, 'ignored', 'no_rule')
    if (decision.kind === 'look again') {
      const afterMs = times.lookAgainMs - delivery.ageMs
      await noteLater(database, delivery, { afterMs, reason: null, countTry: false })
      return undefined
    }
    const owner = deal.ownerId ? await ownerName(hubspot.accountId, token, deal.ownerId) : undefined
    const message = messageFor(
      {
        ...deal,
        ownerName: owner ?? null,
        url: crm.dealUrl(hubspot.accountId, delivery.dealId),
      },
      move,
      decision.ruleId,
    )

    const slackSecrets = openSecrets(vault, slack)
    for (;;) {
      const claimed = await claim(database, delivery)
      if (claimed.kind === 'gone') return undefined
      if (claimed.kind === 'said') return await end(delivery, 'ignored', 'said_in_channel')
      if (claimed.kind === 'go') break
      if (claimed.ms > shortWaitMs || isStopping()) return claimed.ms
      await delay(claimed.ms)
    }
    const outcome = await chat.post(slackSecrets, slackChannel, message)
    failpoint('accepted', delivery.dealId)
    const fields = logFields(delivery)
    switch (outcome.kind) {
      case 'posted': {
        const more = await noteUntilNoted(delivery)
        failpoint('noted', delivery.dealId)
        log('delivery sent', { ...fields, rule: decision.ruleId })
        return more ? undefined : 'empty'
      }
      case 'wait':
        await noteRateLimit(database, delivery, outcome.ms)
        log('channel rate limited', { ...fields, waitMs: outcome.ms })
        return outcome.ms
      case 'failed':
        return await retry(delivery, outcome.reason, { countTry: false })
      case 'refused':
        if (outcome.connectionBroken) await markBroken(slack, outcome.reason)
        return await end(delivery, 'dead', outcome.reason)
    }
  }

  /** Slack has the message: to try it again because the database failed would be to repeat it. */
  async function noteUntilNoted(delivery: Delivery): Promise<boolean> {
    for (;;) {
      try {
        return await noteSent(database, delivery)
      } catch (error) {
        log('delivery not noted', { ...logFields(delivery), ...errorFields(error) })
        if (isStopping()) throw error
        await delay(times.pollMs)
      }
    }
  }

  async function afterCrmFailure(
    delivery: Delivery,
    hubspot: Connection,
    error: ProviderError,
  ): Promise<number | undefined> {
    if (error.reason === 'disconnected') return await end(delivery, 'dead', 'disconnected')
    if (error.kind === 'refused') {
      const reason = error.reason ?? 'refused'
      await markBroken(hubspot, reason)
      return await end(delivery, 'dead', reason)
    }
    if (error.retryAfterMs !== undefined) {
      const later = { afterMs: error.retryAfterMs, reason: 'rate_limited', countTry: false }
      await noteLater(database, delivery, later)
      return undefined
    }
    return await retry(delivery, `hubspot_${error.reason ?? error.kind}`, { countTry: true })
  }

  async function retry(
    delivery: Delivery,
    reason: string,
    { countTry }: { countTry: boolean },
  ): Promise<undefined> {
    const tries = delivery.attempts + 1
    if (tries >= maxAttempts) return await end(delivery, 'dead', reason)
    const afterMs = retryAfterMs(tries, times.firstRetryMs)
    await noteLater(database, delivery, { afterMs, reason, countTry })
    log('delivery put off', { ...logFields(delivery), reason, tries, afterMs })
  }

  async function end(
    delivery: Delivery,
    state: 'dead' | 'ignored',
    reason: string,
  ): Promise<undefined> {
    await noteEnd(database, delivery, state, reason)
    log(state === 'dead' ? 'delivery dead' : 'delivery ignored', { ...logFields(delivery), reason })
  }

  /** The status says so from now on; the rules stay, and connecting again mends it. */
  async function markBroken(connection: Connection, reason: string): Promise<void> {
    await database
      .update(connections)
      .set({ brokenReason: reason, brokenSince: sql`now()` })
      .where(
        and(
          eq(connections.id, connection.id),
          // A connection that was made anew meanwhile is not the one that broke.
          eq(connections.connectedAt, connection.connectedAt),
          isNull(connections.brokenSince),
        ),
      )
    log('connection broken', { connection: connection.id, provider: connection.provider, reason })
  }
}

/** Growing and jittered: half of the wait is certain, so that a crowd of tries spreads out. */
export function retryAfterMs(tries: number, firstMs: number, random = Math.random): number {
  const most = Math.min(firstMs * 2 ** (tries - 1), longestRetryMs)
  return Math.round(most / 2 + (most / 2) * random())
}

function logFields({ id, eventId, slack, hubspot }: Delivery) {
  return { delivery: id, dealEvent: eventId, connections: [hubspot?.id, slack?.id] }
}

function errorFields(error: unknown) {
  // A query's error may quote what it was given, so only its name and our own lines are told.
  const stack = error instanceof Error ? (error.stack ?? '') : ''
  return {
    error: error instanceof Error ? error.name : typeof error,
    at: stack
      .split('\n')
      .filter((line) => line.startsWith('    at '))
      .slice(0, 6),
  }
}
