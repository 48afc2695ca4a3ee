import { setTimeout as delay } from 'node:timers/promises'
import type { AvailableRuleId } from '../../../contract/rules.ts'
import { isDatabaseFailure, isRefusedWithoutRoom } from '../../database/failure.ts'
import type { Database } from '../../database/open.ts'
import { errorFields, type Log } from '../../log.ts'
import { type CrmConnection, createWithAccess, type WithAccess } from '../../people/access-token.ts'
import { type Connection, markBroken, openSecrets } from '../../people/connections.ts'
import { channelOf } from '../../people/routes.ts'
import type { Vault } from '../../people/vault.ts'
import {
  type ChatMessage,
  type Crm,
  ProviderError,
  type Providers,
  type Urgency,
} from '../../providers/provider.ts'
import { type CrmId, crmIds, isChatId } from '../../providers/registry.ts'
import {
  createOwnerCache,
  createStageCache,
  formerValue,
  stageFinder,
} from '../decide/deal-lookup.ts'
import { createDealReader, type Wanted } from '../decide/deal-reader.ts'
import {
  type Change,
  dealRules,
  decide,
  mayNeedLinks,
  needsLinks,
  possibleRules,
  type RuleEntry,
} from '../decide/rules.ts'
import { failpoint } from '../failpoint.ts'
import {
  type Claim,
  claim,
  type DealDelivery,
  type Delivery,
  deliveriesFrom,
  endBacklog,
  isOfDeal,
  manyWaiting,
  moveToChannel,
  postpone,
  recordEnd,
  recordRateLimit,
  recordSent,
  type Shown,
} from '../pick/deliveries.ts'
import { createWorkspacePace } from '../schedule/pace.ts'
import type { RelayTimes } from '../times.ts'
import {
  digestOf,
  longestLabel,
  longestName,
  type MessageEntry,
  messageFor,
  oneLine,
  testMessage,
} from '../write/message.ts'

/** After this many failed tries, a delivery is dead. The tries take about two hours. */
const maxAttempts = 20
const longestRetryMs = 15 * 60_000
/** If a message is sent so long after the change, it says when the change happened. */
const lateAfterMs = 10 * 60_000
/** The most events in one digest. */
const mostInDigest = 30
/** How many deliveries a digest looks at, if there are as many, so that the calls to the CRM are full. */
const lookedAhead = 150
/**
 * An account of a CRM that answers slowly gets at most half of the channels that a process works on
 * (loop.ts). Its other channels try again after `busyAccountRestMs`.
 */
const mostOfOneAccount = 250
const busyAccountRestMs = 500
/** For a shorter wait, the process keeps the channel: a release and a new lease would cost more. */
const shortWaitMs = 1_100

/** What to do with the channel after the work on a delivery. */
export type ChannelState =
  | { kind: 'go on' }
  | { kind: 'rest'; ms: number }
  /** The channel has no pending delivery, or this process has lost its lease. */
  | { kind: 'done' }

const goOn: ChannelState = { kind: 'go on' }
const whileLeased = (isLeased: boolean): ChannelState => (isLeased ? goOn : { kind: 'done' })

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
  const pace = createWorkspacePace()
  /** Deliveries whose digest Slack refused because of its form. The relay sends each one alone. */
  const notInDigests = new Set<number>()

  /** How many channels are being worked on, for each account of a CRM. */
  const busyChannels = new Map<string, number>()

  return async function deliver(delivery: Delivery): Promise<ChannelState> {
    const account = `${delivery.crmId}/${delivery.accountId}`
    const busy = busyChannels.get(account) ?? 0
    if (busy >= mostOfOneAccount) return { kind: 'rest', ms: busyAccountRestMs }
    busyChannels.set(account, busy + 1)
    try {
      return await deliverNext(delivery)
    } finally {
      const left = (busyChannels.get(account) ?? 1) - 1
      if (left > 0) busyChannels.set(account, left)
      else busyChannels.delete(account)
    }
  }

  async function deliverNext(delivery: Delivery): Promise<ChannelState> {
    const { crmId, crm, chat, channel } = delivery
    if (crm === null || chat === null) return await end([delivery], 'dead', 'disconnected')
    // A test message says nothing of the account.
    if (isOfDeal(delivery) && crm.accountId !== delivery.accountId) {
      return await end([delivery], 'ignored', 'another_account')
    }
    const broken = [crm, chat].find(({ brokenReason }) => brokenReason !== null)
    if (broken !== undefined) {
      const ended = await endBacklog(database, owner, delivery, broken)
      const reason = broken.brokenReason
      log('delivery dead', { ...logFields(delivery), messages: ended ?? 0, reason })
      return whileLeased(ended !== undefined)
    }
    const chosenChannel = channelOf(chat)
    if (chosenChannel !== channel) {
      return whileLeased(await moveToChannel(database, owner, delivery, chosenChannel))
    }
    if (chat.channelId === null) return await end([delivery], 'dead', 'no_channel')
    if (isOfDeal(delivery) && delivery.ruleIds.length === 0) {
      return await end([delivery], 'ignored', 'no_rule')
    }

    // Look at the pause first: the CRM need not be read for a message that must wait.
    const pauseMs = delivery.channelFreeAt - performance.now()
    if (pauseMs > shortWaitMs) return { kind: 'rest', ms: pauseMs }

    const connection = { ...crm, provider: crmId }
    try {
      if (!isOfDeal(delivery)) {
        return await send([delivery], crm, chat, chat.channelId, testMessage, [])
      }
      const mayDigest = delivery.waiting >= manyWaiting && !notInDigests.has(delivery.id)
      return mayDigest
        ? await deliverMany(delivery, connection, chat, chat.channelId)
        : await deliverOne(delivery, connection, chat, chat.channelId)
    } catch (error) {
      return await afterError(delivery, connection, error)
    }
  }

  async function deliverOne(
    delivery: DealDelivery,
    crm: CrmConnection,
    chat: Connection,
    chatChannel: string,
  ): Promise<ChannelState> {
    const [candidate] = await candidatesOf([delivery], crm, 'fresh')
    if (candidate === undefined || candidate.possible.length === 0) {
      const shown = candidate && shownOfValue(candidate)
      return await end([{ ...delivery, ...(shown && { shown }) }], 'ignored', 'no_rule')
    }
    const composed = await compose([candidate], crm, 'fresh')
    switch (composed.kind) {
      case 'ignore':
        return await end([{ ...delivery, shown: composed.shown }], 'ignored', composed.reason)
      case 'look again':
        return await lookAgain(delivery, composed.afterMs)
      case 'message': {
        const message = messageFor(await withOwner(composed.entry, crm, 'fresh'))
        const shown = shownOf(composed.entry)
        const { ruleId } = composed.entry
        return await send([{ ...delivery, shown }], crm, chat, chatChannel, message, [ruleId])
      }
    }
  }

  /**
   * Sends one message about several events, in their order. If only a few of them need a message, sends
   * the first one alone, and the next call continues.
   */
  async function deliverMany(
    first: DealDelivery,
    crm: CrmConnection,
    chat: Connection,
    chatChannel: string,
  ): Promise<ChannelState> {
    const queue: Candidate[] = []
    const group: Array<{ delivery: DealDelivery; entry: MessageEntry }> = []
    const ignored = new Map<string, Delivery[]>()
    const ignore = (reason: string, some: readonly Delivery[]) => {
      if (some.length > 0) ignored.set(reason, [...(ignored.get(reason) ?? []), ...some])
    }
    let last: Delivery | undefined
    let more = true
    /** What to do with the delivery that must wait. All before it can be sent or ended. */
    let wait: (() => Promise<ChannelState>) | undefined
    while (group.length < mostInDigest && wait === undefined) {
      let delivery = queue[0]?.delivery ?? first
      try {
        while (more && queue.length < lookedAhead && !isStopping()) {
          const page = await deliveriesFrom(database, first, last)
          more = page.more
          last = page.deliveries.at(-1)
          const [said, unsaid] = partition(page.deliveries, (each) => each.said !== null)
          const alone = unsaid.findIndex((each) => !isOfDeal(each) || notInDigests.has(each.id))
          if (alone !== -1) more = false
          const upcoming = (alone === -1 ? unsaid : unsaid.slice(0, alone)).filter(isOfDeal)
          const candidates = await candidatesOf(upcoming, crm, 'backlog')
          const [possible, others] = partition(candidates, (each) => each.possible.length > 0)
          ignore(
            'said_in_channel',
            said.map((each) => ({ ...each, shown: each.said ?? {} })),
          )
          ignore(
            'no_rule',
            others.map((other) => ({ ...other.delivery, shown: shownOfValue(other) })),
          )
          queue.push(...possible)
        }
        const [candidate, ...others] = queue
        if (candidate === undefined) break
        delivery = candidate.delivery
        const composed = await compose([candidate, ...others], crm, 'backlog')
        if (composed.kind === 'message') {
          const { entry } = composed
          group.push({ delivery: { ...candidate.delivery, shown: shownOf(entry) }, entry })
        } else if (composed.kind === 'ignore') {
          ignore(composed.reason, [{ ...delivery, shown: composed.shown }])
        } else wait = () => lookAgain(candidate.delivery, composed.afterMs)
        queue.shift()
      } catch (error) {
        const failed = delivery
        wait = () => afterError(failed, crm, error)
      }
    }
    for (const [reason, some] of ignored) {
      const state = await end(some, 'ignored', reason)
      if (state.kind === 'done') return state
    }

    const [head] = group
    if (head === undefined) return wait === undefined ? goOn : await wait()
    if (group.length < manyWaiting) {
      const message = messageFor(await withOwner(head.entry, crm, 'backlog'))
      return await send([head.delivery], crm, chat, chatChannel, message, [head.entry.ruleId])
    }
    const { message, covers } = digestOf(group.map(({ entry }) => entry))
    const [, ...rest] = group.slice(0, covers)
    return await send(
      [head.delivery, ...rest.map(({ delivery }) => delivery)],
      crm,
      chat,
      chatChannel,
      message,
      [...new Set([head, ...rest].map(({ entry }) => entry.ruleId))],
    )
  }

  /** Returns a function that finds stages. Reads the account's stages if these ids need it. */
  async function stagesWith(
    ids: readonly string[],
    crm: CrmConnection,
    urgency: Urgency,
  ): Promise<Change['stage']> {
    const { stagesOf } = lookups[crm.provider]
    const stages = await withAccess(crm, urgency, (access) => stagesOf(access, ids))
    return stageFinder(stages)
  }

  /**
   * Finds the ticked rules that may apply to deliveries of one user. Reads no deal.
   * @throws ProviderError
   */
  async function candidatesOf(
    deliveries: readonly DealDelivery[],
    crm: CrmConnection,
    urgency: Urgency,
  ): Promise<Candidate[]> {
    const [first] = deliveries
    if (first === undefined) return []
    const ticked = new Set(first.ruleIds)
    const stageIds = deliveries.flatMap(({ property, value }) =>
      property === 'stage' ? [value] : [],
    )
    const stage = await stagesWith([...new Set(stageIds)], crm, urgency)
    return deliveries.map((delivery) => {
      const possible = possibleRules(delivery.property, delivery.value, ticked, stage)
      return { delivery, possible, stage }
    })
  }

  /**
   * Decides whether the first delivery needs a message, and what it says. Reads the deals of the others
   * with the same calls.
   * @throws ProviderError
   */
  async function compose(
    candidates: readonly [Candidate, ...Candidate[]],
    crm: CrmConnection,
    urgency: Urgency,
  ): Promise<Composed> {
    const [{ delivery, possible, stage }, ...others] = candidates
    const { property, value, receivedAtMs } = delivery
    const startedAt = Date.now()
    const wantedOf = (each: Delivery) => wantedAt(startedAt, each)
    const ticked = new Set(delivery.ruleIds)
    const { reader } = lookups[crm.provider]
    const withLinks = mayNeedLinks(possible)
    const wanted = others.filter((other) => other.delivery.property === property)
    const deal = await reader.deal(
      crm,
      [wantedOf(delivery), ...wanted.map((other) => wantedOf(other.delivery))],
      property,
      { withLinks, urgency },
    )
    if (deal === undefined) {
      return { kind: 'ignore', reason: 'no_such_deal', shown: shownOfValue(candidates[0]) }
    }

    const from = formerValue(deal.history, delivery)
    const unlinked: Change = {
      property,
      from,
      to: value,
      deal,
      stage: property === 'stage' && from ? await stagesWith([value, from], crm, urgency) : stage,
    }
    const linked = needsLinks(unlinked, ticked)
      ? await reader.isLinked(
          crm,
          [
            { ...wantedOf(delivery), dealId: deal.id },
            ...wanted
              .filter((other) => mayNeedLinks(other.possible))
              .map((other) => wantedOf(other.delivery)),
          ],
          property,
          urgency,
        )
      : undefined
    const change: Change = { ...unlinked, deal: { ...deal, linked } }
    const lookAgainInMs = receivedAtMs + times.lookAgainMs - startedAt
    const decision = decide(change, ticked, { mayLookAgain: lookAgainInMs > 0 })
    if (decision.kind === 'nothing') {
      const dealName = shownText(deal.name, longestName)
      const shown = { ...shownOfValue(candidates[0]), dealName, dealUrl: deal.url }
      return { kind: 'ignore', reason: 'no_rule', shown }
    }
    if (decision.kind === 'look again') return { kind: 'look again', afterMs: lookAgainInMs }
    const { ruleId } = decision
    const headline = dealRules[ruleId].headline(change)
    const isLate = startedAt - delivery.occurredAt.getTime() > lateAfterMs
    return {
      kind: 'message',
      entry: {
        ruleId,
        headline,
        deal: { ...deal, ownerName: null },
        ownerId: deal.ownerId,
        late: isLate ? delivery.occurredAt : undefined,
      },
    }
  }

  function wantedAt(atMs: number, { dealId, receivedAtMs }: Delivery): Wanted {
    const lookAgainAtMs = receivedAtMs + times.lookAgainMs
    const unlinkedSinceMs = atMs < lookAgainAtMs ? receivedAtMs : lookAgainAtMs
    return { dealId, sinceMs: receivedAtMs, unlinkedSinceMs }
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
    try {
      const name = await withAccess(crm, urgency, (access) => ownerName(access, ownerId))
      return { ...entry, deal: { ...entry.deal, ownerName: name ?? null } }
    } catch (error) {
      // A message without the name is better than a message that waits for it.
      if (error instanceof ProviderError) return entry
      throw error
    }
  }

  async function lookAgain(delivery: Delivery, afterMs: number): Promise<ChannelState> {
    return await putOff([delivery], { afterMs, reason: null, countTry: false })
  }

  /** Claims the deliveries of one message, posts the message and records the outcome. */
  async function send(
    unclaimed: readonly [Delivery, ...Delivery[]],
    crm: Connection,
    chat: Connection,
    chatChannel: string,
    message: ChatMessage,
    ruleIds: readonly AvailableRuleId[],
  ): Promise<ChannelState> {
    const [first] = unclaimed
    if (!isChatId(chat.provider)) return await end(unclaimed, 'dead', 'no_channel')
    const secrets = openSecrets(vault, chat)
    let waitMs = first.channelFreeAt - performance.now()
    let hasTurn = false
    let claimed: Claim
    for (;;) {
      if (waitMs > shortWaitMs || (waitMs > 0 && isStopping())) return { kind: 'rest', ms: waitMs }
      if (waitMs > 0) await delay(waitMs)
      // Wait before the claim: a claim lasts for seconds only.
      if (!hasTurn) {
        waitMs = pace.take(first.channel)
        hasTurn = waitMs === 0
        if (!hasTurn) continue
      }
      claimed = await claim(database, owner, unclaimed, [crm, chat])
      if (claimed.kind === 'send') break
      if (claimed.kind === 'gone') return goOn
      if (claimed.kind === 'lease lost') return { kind: 'done' }
      if (claimed.kind === 'sent already') {
        // Of several deliveries, the next call of `deliverMany` ends those that were sent.
        return unclaimed.length > 1 ? goOn : await end(unclaimed, 'ignored', 'said_in_channel')
      }
      waitMs = claimed.ms
    }
    const group = claimedGroup(unclaimed, claimed.claimedUntil)
    // If this process stalled, its claim may end during the post. Another process could then send, too.
    if (!claimed.mayPost()) {
      log('claim too old', logFields(first))
      const afterMs = times.firstRetryMs
      return await putOff(group, { afterMs, reason: null, countTry: false })
    }
    const outcome = await providers[chat.provider].post(secrets, chatChannel, message)
    failpoint('accepted', first.dealId)
    switch (outcome.kind) {
      case 'posted': {
        const more = await recordUntilRecorded(group)
        failpoint('noted', first.dealId)
        for (const { id } of group) notInDigests.delete(id)
        log('delivery sent', { ...logFields(first), messages: group.length, rules: ruleIds })
        return more ? goOn : { kind: 'done' }
      }
      case 'wait':
        log('channel rate limited', { ...logFields(first), waitMs: outcome.ms })
        return (await recordRateLimit(database, owner, group, outcome.ms))
          ? { kind: 'rest', ms: outcome.ms }
          : { kind: 'done' }
      case 'failed':
        return await retry(group, outcome.reason)
      case 'refused':
        if (outcome.connectionBroken) await connectionBroke(chat, outcome.reason)
        else if (group.length > 1) {
          for (const { id } of group) notInDigests.add(id)
          return await putOff(group, { afterMs: 0, reason: outcome.reason, countTry: false })
        }
        return await end(group, 'dead', outcome.reason, { countTry: true })
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
        if (!isRefusedWithoutRoom(error)) {
          log('delivery not noted', { ...logFields(group[0]), ...errorFields(error) })
        }
        if (isStopping()) throw error
        await delay(times.pollMs)
      }
    }
  }

  async function afterError(
    delivery: Delivery,
    crm: CrmConnection,
    error: unknown,
  ): Promise<ChannelState> {
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
    const reason = `${crm.provider}_${error.reason ?? error.kind}`
    return await retry([delivery], reason)
  }

  /** Counts a failed try. The deliveries are tried again later, or are dead after the last try. */
  async function retry(
    group: readonly [Delivery, ...Delivery[]],
    reason: string,
  ): Promise<ChannelState> {
    // Those of a digest may have had different numbers of tries.
    const [dead, left] = partition(group, ({ attempts }) => attempts + 1 >= maxAttempts)
    const ended = await end(dead, 'dead', reason, { countTry: true })
    const [first, ...others] = left
    if (first === undefined) return ended
    const tries = first.attempts + 1
    const afterMs = retryAfterMs(tries, times.firstRetryMs)
    const state = await putOff([first, ...others], { afterMs, reason, countTry: true })
    log('delivery put off', { ...logFields(first), reason, tries, afterMs })
    return state
  }

  async function putOff(
    group: readonly [Delivery, ...Delivery[]],
    options: { afterMs: number; reason: string | null; countTry: boolean },
  ): Promise<ChannelState> {
    return whileLeased(await postpone(database, owner, group, options))
  }

  async function end(
    group: readonly Delivery[],
    state: 'dead' | 'ignored',
    reason: string,
    { countTry } = { countTry: false },
  ): Promise<ChannelState> {
    const [first, ...others] = group
    if (first === undefined) return goOn
    const isLeased = await recordEnd(database, owner, [first, ...others], {
      state,
      reason,
      countTry,
    })
    for (const delivery of group) {
      notInDigests.delete(delivery.id)
      const event = state === 'dead' ? 'delivery dead' : 'delivery ignored'
      log(event, { ...logFields(delivery), reason })
    }
    return whileLeased(isLeased)
  }

  async function connectionBroke(connection: Connection, reason: string): Promise<void> {
    await markBroken(database, connection, reason)
    log('connection broken', { connection: connection.id, provider: connection.provider, reason })
  }
}

/** A delivery of which no deal is read yet. */
interface Candidate {
  delivery: DealDelivery
  /** The ticked rules that may apply. If there is none, no message is needed. */
  possible: readonly RuleEntry[]
  stage: Change['stage']
}

type Composed =
  | { kind: 'message'; entry: MessageEntry }
  | { kind: 'ignore'; reason: string; shown: Shown }
  | { kind: 'look again'; afterMs: number }

/** What the list of messages shows of a change that has a message. */
function shownOf({ deal, headline, ruleId }: MessageEntry): Shown {
  return {
    ruleId,
    dealName: shownText(deal.name, longestName),
    dealUrl: deal.url,
    from: shownText(headline.from, longestLabel),
    to: shownText(headline.to, longestLabel),
  }
}

/** What the list of messages shows of a change without a message: a stage's label, or nothing. */
function shownOfValue({ delivery: { property, value }, stage }: Candidate): Shown {
  return property === 'stage' ? { to: shownText(stage(value).label, longestLabel) } : {}
}

function shownText(text: string | null | undefined, maxLength: number): string | undefined {
  return (text && oneLine(text, maxLength)) || undefined
}

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

function partition<Item>(items: readonly Item[], test: (item: Item) => boolean): [Item[], Item[]] {
  return [items.filter(test), items.filter((item) => !test(item))]
}

function claimedGroup(
  [first, ...others]: readonly [Delivery, ...Delivery[]],
  claimedUntil: string,
): [Delivery, ...Delivery[]] {
  return [{ ...first, claimedUntil }, ...others.map((other) => ({ ...other, claimedUntil }))]
}

function logFields({ id, eventId, crm, chat }: Delivery) {
  return { delivery: id, dealEvent: eventId, connections: [crm?.id, chat?.id] }
}
