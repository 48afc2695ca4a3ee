import { setTimeout as delay } from 'node:timers/promises'
import type { AvailableRuleId } from '../../contract/rules.ts'
import type { Database } from '../database/open.ts'
import { errorFields, type Log } from '../log.ts'
import { type CrmConnection, createAccessTokens } from '../people/access-token.ts'
import { type Connection, markBroken, openSecrets } from '../people/connections.ts'
import type { Vault } from '../people/vault.ts'
import { type ChatMessage, type Crm, ProviderError, type Providers } from '../providers/provider.ts'
import { type CrmId, crmIds, isChatId } from '../providers/registry.ts'
import { createOwnerCache, createStageCache, formerValue } from './deal-lookup.ts'
import {
  claim,
  type Delivery,
  moveToChannel,
  postpone,
  recordEnd,
  recordRateLimit,
  recordSent,
} from './deliveries.ts'
import { failpoint } from './failpoint.ts'
import { messageFor } from './message.ts'
import { type Change, dealRules, decide } from './rules.ts'
import type { RelayTimes } from './times.ts'

/** After this many failed tries, a delivery is dead. The tries take about two hours. */
const maxAttempts = 20
const longestRetryMs = 15 * 60_000
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

/** Creates the function that works on one delivery: read, decide, compose, claim, post, record. */
export function createDeliver({
  database,
  vault,
  providers,
  log,
  times,
  owner,
  isStopping,
}: DeliverDependencies) {
  const accessToken = createAccessTokens({ database, vault, providers })
  const caches = Object.fromEntries(
    crmIds.map((id) => [id, createCaches(providers[id])]),
    // The type of Object.fromEntries does not keep the names of the keys.
  ) as Record<CrmId, ReturnType<typeof createCaches>>

  return async function deliver(delivery: Delivery): Promise<ChannelState> {
    const { crmId, crm, chat, channel } = delivery
    if (crm === null || chat === null) return await end(delivery, 'dead', 'disconnected')
    if (crm.accountId !== delivery.accountId) {
      return await end(delivery, 'ignored', 'another_account')
    }
    const broken = crm.brokenReason ?? chat.brokenReason
    if (broken !== null) return await end(delivery, 'dead', broken)
    const chosenChannel = `${chat.accountId}/${chat.channelId ?? ''}`
    if (chosenChannel !== channel) {
      await moveToChannel(database, delivery, chosenChannel)
      return goOn
    }
    if (chat.channelId === null) return await end(delivery, 'dead', 'no_channel')
    if (delivery.ruleIds.length === 0) return await end(delivery, 'ignored', 'no_rule')

    const crmConnection = { ...crm, provider: crmId }
    try {
      const composed = await compose(delivery, crmConnection)
      switch (composed.kind) {
        case 'ignore':
          return await end(delivery, 'ignored', composed.reason)
        case 'look again':
          await postpone(database, delivery, {
            afterMs: composed.afterMs,
            reason: null,
            countTry: false,
          })
          return goOn
        case 'message':
          return await send(delivery, crmConnection, chat, chat.channelId, composed)
      }
    } catch (error) {
      if (error instanceof ProviderError) return await afterCrmError(delivery, crmConnection, error)
      // A bug in our code must not stop the channel.
      log('delivery failed', { ...logFields(delivery), ...errorFields(error) })
      return await retry(delivery, 'internal_error', { countTry: true })
    }
  }

  /**
   * Reads the deal, decides under which rule to send, and writes the message.
   * @throws ProviderError
   */
  async function compose(delivery: Delivery, crm: CrmConnection): Promise<Composed> {
    const { property, value, dealId } = delivery
    const { accountId } = crm
    const { stagesOf, ownerName } = caches[crm.provider]
    const token = await accessToken(crm)
    const deal = await providers[crm.provider].deal(token, dealId, property)
    if (deal === undefined) return { kind: 'ignore', reason: 'no_such_deal' }

    const from = formerValue(deal.history, delivery)
    const stageIds = property === 'stage' ? [value, ...(from ? [from] : [])] : []
    const stages = await stagesOf(accountId, token, stageIds)
    const change: Change = {
      property,
      from,
      to: value,
      deal,
      stage: (id) => stages.get(id) ?? { id, label: id, outcome: 'open' },
    }
    const decision = decide(change, new Set(delivery.ruleIds), {
      mayLookAgain: delivery.ageMs < times.lookAgainMs,
    })
    if (decision.kind === 'nothing') return { kind: 'ignore', reason: 'no_rule' }
    if (decision.kind === 'look again') {
      return { kind: 'look again', afterMs: times.lookAgainMs - delivery.ageMs }
    }

    const owner = deal.ownerId ? await ownerName(accountId, token, deal.ownerId) : undefined
    const url = providers[crm.provider].dealUrl(accountId, dealId)
    const { ruleId } = decision
    const headline = dealRules[ruleId].headline(change)
    const message = messageFor({ ...deal, ownerName: owner ?? null, url }, headline, ruleId)
    return { kind: 'message', ruleId, message }
  }

  /** Claims the delivery, posts the message and records the outcome. */
  async function send(
    delivery: Delivery,
    crm: Connection,
    chat: Connection,
    chatChannel: string,
    { ruleId, message }: { ruleId: AvailableRuleId; message: ChatMessage },
  ): Promise<ChannelState> {
    if (!isChatId(chat.provider)) return await end(delivery, 'dead', 'no_channel')
    const secrets = openSecrets(vault, chat)
    let waitMs = delivery.channelFreeAt - performance.now()
    for (;;) {
      if (waitMs > shortWaitMs || (waitMs > 0 && isStopping())) return { kind: 'rest', ms: waitMs }
      if (waitMs > 0) await delay(waitMs)
      const claimed = await claim(database, owner, delivery, [crm.id, chat.id])
      if (claimed.kind === 'send') break
      if (claimed.kind === 'gone') return goOn
      if (claimed.kind === 'lease lost') return { kind: 'done' }
      if (claimed.kind === 'sent already') return await end(delivery, 'ignored', 'said_in_channel')
      waitMs = claimed.ms
    }
    const outcome = await providers[chat.provider].post(secrets, chatChannel, message)
    failpoint('accepted', delivery.dealId)
    switch (outcome.kind) {
      case 'posted': {
        const more = await recordUntilRecorded(delivery)
        failpoint('noted', delivery.dealId)
        log('delivery sent', { ...logFields(delivery), rule: ruleId })
        return more ? goOn : { kind: 'done' }
      }
      case 'wait':
        await recordRateLimit(database, delivery, outcome.ms)
        log('channel rate limited', { ...logFields(delivery), waitMs: outcome.ms })
        return { kind: 'rest', ms: outcome.ms }
      case 'failed':
        return await retry(delivery, outcome.reason, { countTry: false })
      case 'refused':
        if (outcome.connectionBroken) await connectionBroke(chat, outcome.reason)
        return await end(delivery, 'dead', outcome.reason)
    }
  }

  /**
   * Records that the chat has the message. Repeats this until it succeeds, instead of sending
   * again.
   */
  async function recordUntilRecorded(delivery: Delivery): Promise<boolean> {
    for (;;) {
      try {
        return await recordSent(database, delivery)
      } catch (error) {
        log('delivery not noted', { ...logFields(delivery), ...errorFields(error) })
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
    if (error.reason === 'disconnected') return await end(delivery, 'dead', 'disconnected')
    if (error.kind === 'refused') {
      const reason = error.reason ?? 'refused'
      await connectionBroke(crm, reason)
      return await end(delivery, 'dead', reason)
    }
    if (error.retryAfterMs !== undefined) {
      await postpone(database, delivery, {
        afterMs: error.retryAfterMs,
        reason: 'rate_limited',
        countTry: false,
      })
      return goOn
    }
    const reason = `${crm.provider}_${error.reason ?? error.kind}`
    return await retry(delivery, reason, { countTry: true })
  }

  async function retry(
    delivery: Delivery,
    reason: string,
    { countTry }: { countTry: boolean },
  ): Promise<ChannelState> {
    const tries = delivery.attempts + 1
    if (tries >= maxAttempts) return await end(delivery, 'dead', reason)
    const afterMs = retryAfterMs(tries, times.firstRetryMs)
    await postpone(database, delivery, { afterMs, reason, countTry })
    log('delivery put off', { ...logFields(delivery), reason, tries, afterMs })
    return goOn
  }

  async function end(
    delivery: Delivery,
    state: 'dead' | 'ignored',
    reason: string,
  ): Promise<ChannelState> {
    await recordEnd(database, delivery, state, reason)
    log(state === 'dead' ? 'delivery dead' : 'delivery ignored', { ...logFields(delivery), reason })
    return goOn
  }

  async function connectionBroke(connection: Connection, reason: string): Promise<void> {
    await markBroken(database, connection, reason)
    log('connection broken', { connection: connection.id, provider: connection.provider, reason })
  }
}

type Composed =
  | { kind: 'message'; ruleId: AvailableRuleId; message: ChatMessage }
  | { kind: 'ignore'; reason: string }
  | { kind: 'look again'; afterMs: number }

function createCaches(crm: Crm) {
  return { stagesOf: createStageCache(crm), ownerName: createOwnerCache(crm) }
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
