import { setTimeout as delay } from 'node:timers/promises'
import type { AvailableRuleId } from '../../contract/rules.ts'
import type { Database } from '../database/open.ts'
import { errorFields, type Log } from '../log.ts'
import { type CrmConnection, createWithAccess, type WithAccess } from '../people/access-token.ts'
import { type Connection, markBroken, openSecrets } from '../people/connections.ts'
import type { Vault } from '../people/vault.ts'
import {
  type ChatMessage,
  type Crm,
  ProviderError,
  type Providers,
  type Urgency,
} from '../providers/provider.ts'
import { type CrmId, crmIds, isChatId } from '../providers/registry.ts'
import { createOwnerCache, createStageCache, formerValue } from './deal-lookup.ts'
import { createDealReader } from './deal-reader.ts'
import {
  claim,
  type Delivery,
  deliveriesFrom,
  manyWaiting,
  moveToChannel,
  postpone,
  recordEnd,
  recordRateLimit,
  recordSent,
  sentToChannel,
} from './deliveries.ts'
import { failpoint } from './failpoint.ts'
import { digestOf, type MessageEntry, messageFor } from './message.ts'
import { type Change, dealRules, decide, needsLinks, possibleRules } from './rules.ts'
import type { RelayTimes } from './times.ts'

/** After this many failed tries, a delivery is dead. The tries take about two hours. */
const maxAttempts = 20
const longestRetryMs = 15 * 60_000
/** If an event arrived so long after the change, the message says when the change happened. */
const lateAfterMs = 10 * 60_000
/** The most events in one digest. */
const mostInDigest = 30
/** How many further deliveries a digest looks at, so that the calls to the CRM are full. */
const mostAhead = 100
/** For a shorter wait, the process keeps the channel: a release and a new lease would cost more. */
const shortWaitMs = 1_100

/** What to do with the channel after the work on a delivery. */
export type ChannelState =
  | { kind: 'go on' }
  | { kind: 'rest'; ms: number }
  /** The channel has no pending delivery, or this process has lost its lease. */
  | { kind: 'done' }

const goOn: ChannelState = { kind: 'go on' }

export interface DeliverDependencies {
  database: Database
  vault: Vault
  providers: Providers
  log: Log
  times: RelayTimes
  /** The id of this process, which holds the leases. */
  owner: string
  isStopping: () => boolean
}

/** Creates the function that works on the next delivery of a channel, or on several with one digest. */
export function createDeliver({
  database,
  vault,
  providers,
  log,
  times,
  owner,
  isStopping,
}: DeliverDependencies) {
  const withAccess = createWithAccess({ database, vault, providers })
  const lookups = Object.fromEntries(
    crmIds.map((id) => [id, createLookups(providers[id], withAccess)]),
    // The type of Object.fromEntries does not keep the names of the keys.
  ) as Record<CrmId, ReturnType<typeof createLookups>>
  /** Deliveries whose digest Slack refused because of its form. The relay sends each one alone. */
  const notInDigests = new Set<number>()

  return async function deliver(delivery: Delivery): Promise<ChannelState> {
    const { crmId, crm, chat, channel } = delivery
    if (crm === null || chat === null) return await end([delivery], 'dead', 'disconnected')
    if (crm.accountId !== delivery.accountId) {
      return await end([delivery], 'ignored', 'another_account')
    }
    const broken = crm.brokenReason ?? chat.brokenReason
    if (broken !== null) return await end([delivery], 'dead', broken)
    const chosenChannel = `${chat.accountId}/${chat.channelId ?? ''}`
    if (chosenChannel !== channel) {
      await moveToChannel(database, delivery, chosenChannel)
      return goOn
    }
    if (chat.channelId === null) return await end([delivery], 'dead', 'no_channel')
    if (delivery.ruleIds.length === 0) return await end([delivery], 'ignored', 'no_rule')

    const connection = { ...crm, provider: crmId }
    try {
      const mayDigest = delivery.waiting >= manyWaiting && !notInDigests.delete(delivery.id)
      return mayDigest
        ? await deliverMany(delivery, connection, chat, chat.channelId)
        : await deliverOne(delivery, connection, chat, chat.channelId)
    } catch (error) {
      if (error instanceof ProviderError) return await afterCrmError(delivery, connection, error)
      // A bug in our code must not stop the channel.
      log('delivery failed', { ...logFields(delivery), ...errorFields(error) })
      return await retry([delivery], 'internal_error', { countTry: true })
    }
  }

  async function deliverOne(
    delivery: Delivery,
    crm: CrmConnection,
    chat: Connection,
    chatChannel: string,
  ): Promise<ChannelState> {
    const composed = await compose([delivery], crm)
    switch (composed.kind) {
      case 'ignore':
        return await end([delivery], 'ignored', composed.reason)
      case 'look again':
        return await lookAgain(delivery, composed.afterMs)
      case 'message': {
        const message = messageFor(await withOwner(composed.entry, crm, 'fresh'))
        return await send([delivery], crm, chat, chatChannel, message, [composed.entry.ruleId])
      }
    }
  }

  /**
   * Sends one message about several events, in their order. If only a few of them need a message, sends
   * the first one alone, and the next call continues.
   */
  async function deliverMany(
    first: Delivery,
    crm: CrmConnection,
    chat: Connection,
    chatChannel: string,
  ): Promise<ChannelState> {
    const waiting = await deliveriesFrom(database, first, mostInDigest + mostAhead)
    const sent = await sentToChannel(database, waiting)
    const isSent = ({ id }: Delivery) => sent.has(id)
    if (sent.size > 0) await end(waiting.filter(isSent), 'ignored', 'said_in_channel')
    const left = waiting.filter((each) => !isSent(each))

    const ignored = new Map<string, Delivery[]>()
    const group: Array<{ delivery: Delivery; entry: MessageEntry }> = []
    /** What to do with the delivery that must wait. All before it can be sent or ended. */
    let wait: (() => Promise<ChannelState>) | undefined
    for (const [at, delivery] of left.entries()) {
      if (group.length === mostInDigest || wait !== undefined) break
      try {
        const composed = await compose([delivery, ...left.slice(at + 1)], crm)
        if (composed.kind === 'message') group.push({ delivery, entry: composed.entry })
        else if (composed.kind === 'look again') wait = () => lookAgain(delivery, composed.afterMs)
        else ignored.set(composed.reason, [...(ignored.get(composed.reason) ?? []), delivery])
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error
        wait = () => afterCrmError(delivery, crm, error)
      }
    }
    for (const [reason, some] of ignored) await end(some, 'ignored', reason)

    const [head, ...rest] = group
    if (head === undefined) return wait === undefined ? goOn : await wait()
    if (group.length < manyWaiting) {
      const message = messageFor(await withOwner(head.entry, crm, 'backlog'))
      return await send([head.delivery], crm, chat, chatChannel, message, [head.entry.ruleId])
    }
    return await send(
      [head.delivery, ...rest.map(({ delivery }) => delivery)],
      crm,
      chat,
      chatChannel,
      digestOf(group.map(({ entry }) => entry)),
      [...new Set(group.map(({ entry }) => entry.ruleId))],
    )
  }

  /**
   * Decides whether the first delivery needs a message, and what it says. Reads the deals of the others
   * with the same calls.
   * @throws ProviderError
   */
  async function compose(
    [delivery, ...upcoming]: readonly [Delivery, ...Delivery[]],
    crm: CrmConnection,
  ): Promise<Composed> {
    const { property, value, dealId, receivedAtMs } = delivery
    const ticked = new Set(delivery.ruleIds)
    const { stagesOf, reader } = lookups[crm.provider]
    const urgency = upcoming.length === 0 ? 'fresh' : 'backlog'
    const stagesWith = async (ids: readonly string[]): Promise<Change['stage']> => {
      const stages = await withAccess(crm, urgency, (access) => stagesOf(access, ids))
      return (id) => stages.get(id) ?? { id, label: id, outcome: 'open' }
    }
    const stage = await stagesWith(property === 'stage' ? [value] : [])
    const possible = possibleRules(property, value, ticked, stage)
    if (possible.length === 0) return { kind: 'ignore', reason: 'no_rule' }

    const lookAgainInMs = receivedAtMs + times.lookAgainMs - Date.now()
    const readsLinks = needsLinks(possible)
    const linksSinceMs = (ms: number) => (lookAgainInMs > 0 ? ms : ms + times.lookAgainMs)
    const others = upcoming.filter(
      (each) =>
        each.property === property && possibleRules(property, each.value, ticked, stage).length > 0,
    )
    if (others.length > 0) {
      const wanted = others.map((each) => ({ dealId: each.dealId, sinceMs: each.receivedAtMs }))
      await reader.readDeals(crm, [{ dealId, sinceMs: receivedAtMs }, ...wanted], property)
    }
    const deal = await reader.deal(
      crm,
      {
        dealId,
        // A single call reads the deal and its links.
        sinceMs: readsLinks && others.length === 0 ? linksSinceMs(receivedAtMs) : receivedAtMs,
      },
      property,
      { withLinks: readsLinks, urgency },
    )
    if (deal === undefined) return { kind: 'ignore', reason: 'no_such_deal' }
    const linked = readsLinks
      ? await reader.isLinked(
          crm,
          [
            { dealId, sinceMs: linksSinceMs(receivedAtMs) },
            ...others.map((each) => ({
              dealId: each.dealId,
              sinceMs: linksSinceMs(each.receivedAtMs),
            })),
          ],
          urgency,
        )
      : undefined

    const from = formerValue(deal.history, delivery)
    const change: Change = {
      property,
      from,
      to: value,
      deal: { ...deal, linked },
      stage: property === 'stage' && from ? await stagesWith([value, from]) : stage,
    }
    const decision = decide(change, ticked, { mayLookAgain: lookAgainInMs > 0 })
    if (decision.kind === 'nothing') return { kind: 'ignore', reason: 'no_rule' }
    if (decision.kind === 'look again') return { kind: 'look again', afterMs: lookAgainInMs }
    const { ruleId } = decision
    const url = providers[crm.provider].dealUrl(crm.accountId, dealId)
    const headline = dealRules[ruleId].headline(change)
    const isLate = receivedAtMs - delivery.occurredAt.getTime() > lateAfterMs
    return {
      kind: 'message',
      entry: {
        ruleId,
        headline,
        deal: { ...deal, ownerName: null, url },
        ownerId: deal.ownerId,
        late: isLate ? delivery.occurredAt : undefined,
      },
    }
  }

  /** Adds the owner's name. Digests do without: it may cost a call for each deal. */
  async function withOwner(
    entry: MessageEntry,
    crm: CrmConnection,
    urgency: Urgency,
  ): Promise<MessageEntry> {
    const { ownerId } = entry
    if (!ownerId) return entry
    const { ownerName } = lookups[crm.provider]
    const name = await withAccess(crm, urgency, (access) => ownerName(access, ownerId))
    return { ...entry, deal: { ...entry.deal, ownerName: name ?? null } }
  }

  async function lookAgain(delivery: Delivery, afterMs: number): Promise<ChannelState> {
    await postpone(database, [delivery], { afterMs, reason: null, countTry: false })
    return goOn
  }

  /** Claims the deliveries of one message, posts the message and records the outcome. */
  async function send(
    group: readonly [Delivery, ...Delivery[]],
    crm: Connection,
    chat: Connection,
    chatChannel: string,
    message: ChatMessage,
    ruleIds: readonly AvailableRuleId[],
  ): Promise<ChannelState> {
    const [first] = group
    if (!isChatId(chat.provider)) return await end(group, 'dead', 'no_channel')
    const secrets = openSecrets(vault, chat)
    let waitMs = first.channelFreeAt - performance.now()
    for (;;) {
      if (waitMs > shortWaitMs || (waitMs > 0 && isStopping())) return { kind: 'rest', ms: waitMs }
      if (waitMs > 0) await delay(waitMs)
      const claimed = await claim(database, owner, group, [crm.id, chat.id])
      if (claimed.kind === 'send') break
      if (claimed.kind === 'gone') return goOn
      if (claimed.kind === 'lease lost') return { kind: 'done' }
      if (claimed.kind === 'sent already') {
        // Of several deliveries, `deliverMany` finds out which ones.
        return group.length > 1 ? goOn : await end(group, 'ignored', 'said_in_channel')
      }
      waitMs = claimed.ms
    }
    const outcome = await providers[chat.provider].post(secrets, chatChannel, message)
    failpoint('accepted', first.dealId)
    switch (outcome.kind) {
      case 'posted': {
        const more = await recordUntilRecorded(group)
        failpoint('noted', first.dealId)
        log('delivery sent', { ...logFields(first), messages: group.length, rules: ruleIds })
        return more ? goOn : { kind: 'done' }
      }
      case 'wait':
        await recordRateLimit(database, group, outcome.ms)
        log('channel rate limited', { ...logFields(first), waitMs: outcome.ms })
        return { kind: 'rest', ms: outcome.ms }
      case 'failed':
        return await retry(group, outcome.reason, { countTry: false })
      case 'refused':
        if (outcome.connectionBroken) await connectionBroke(chat, outcome.reason)
        else if (group.length > 1) {
          for (const { id } of group) notInDigests.add(id)
          await postpone(database, group, { afterMs: 0, reason: outcome.reason, countTry: false })
          return goOn
        }
        return await end(group, 'dead', outcome.reason)
    }
  }

  /**
   * Records that the chat has the message. Repeats this until it succeeds, instead of sending
   * again.
   */
  async function recordUntilRecorded(group: readonly [Delivery, ...Delivery[]]): Promise<boolean> {
    for (;;) {
      try {
        return await recordSent(database, group)
      } catch (error) {
        log('delivery not noted', { ...logFields(group[0]), ...errorFields(error) })
        if (isStopping()) throw error
        await delay(times.pollMs)
      }
    }
  }

  async function afterCrmError(
    delivery: Delivery,
    crm: Connection,
    error: ProviderError,
  ): Promise<ChannelState> {
    if (error.reason === 'disconnected') return await end([delivery], 'dead', 'disconnected')
    if (error.kind === 'refused') {
      const reason = error.reason ?? 'refused'
      await connectionBroke(crm, reason)
      return await end([delivery], 'dead', reason)
    }
    if (error.retryAfterMs !== undefined) {
      await postpone(database, [delivery], {
        afterMs: error.retryAfterMs,
        reason: error.reason ?? 'rate_limited',
        countTry: false,
      })
      return goOn
    }
    const reason = `${crm.provider}_${error.reason ?? error.kind}`
    return await retry([delivery], reason, { countTry: true })
  }

  async function retry(
    group: readonly [Delivery, ...Delivery[]],
    reason: string,
    { countTry }: { countTry: boolean },
  ): Promise<ChannelState> {
    const tries = group[0].attempts + 1
    if (tries >= maxAttempts) return await end(group, 'dead', reason)
    const afterMs = retryAfterMs(tries, times.firstRetryMs)
    await postpone(database, group, { afterMs, reason, countTry })
    log('delivery put off', { ...logFields(group[0]), reason, tries, afterMs })
    return goOn
  }

  async function end(
    group: readonly Delivery[],
    state: 'dead' | 'ignored',
    reason: string,
  ): Promise<ChannelState> {
    await recordEnd(database, group, state, reason)
    for (const delivery of group) {
      const event = state === 'dead' ? 'delivery dead' : 'delivery ignored'
      log(event, { ...logFields(delivery), reason })
    }
    return goOn
  }

  async function connectionBroke(connection: Connection, reason: string): Promise<void> {
    await markBroken(database, connection, reason)
    log('connection broken', { connection: connection.id, provider: connection.provider, reason })
  }
}

type Composed =
  | { kind: 'message'; entry: MessageEntry }
  | { kind: 'ignore'; reason: string }
  | { kind: 'look again'; afterMs: number }

function createLookups(crm: Crm, withAccess: WithAccess) {
  return {
    reader: createDealReader(crm, withAccess),
    stagesOf: createStageCache(crm),
    ownerName: createOwnerCache(crm),
  }
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

function logFields({ id, eventId, crm, chat }: Delivery) {
  return { delivery: id, dealEvent: eventId, connections: [crm?.id, chat?.id] }
}
