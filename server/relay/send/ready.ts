// Gets a delivery as pick/ has read it. Returns where its message comes from and goes to, or what prevents a message now.
// The relay asks this before it reads from the CRM. It reads nothing itself. A channel takes its turn in the account
// only when it has a message, so the wait for a turn is unknown if the channel has not asked yet. The claim checks the
// connections and the pause again, because they may change before the post.

import type { CrmConnection } from '../../people/access-token.ts'
import type { Connection } from '../../people/connections.ts'
import { isClosed } from '../../people/refusals.ts'
import { channelOf } from '../../people/routes.ts'
import { type ChatId, isChatId } from '../../providers/registry.ts'
import { type Delivery, isOfDeal } from '../pick/delivery.ts'

/** For a shorter wait, the process keeps the channel: a release and a new lease would cost more. */
export const shortWaitMs = 1_100

/** Where a message comes from and goes to, if nothing prevents it now. */
export interface OpenRoute {
  crm: CrmConnection
  chat: Connection & { provider: ChatId }
  /** The id of the channel in the chat. */
  channelId: string
}

type Readiness =
  | { kind: 'ready'; route: OpenRoute }
  /** No message is needed or possible. */
  | { kind: 'end'; state: 'dead' | 'ignored'; reason: string }
  | { kind: 'broken'; connection: Connection }
  | { kind: 'disconnected' }
  /** The operator lets the account's messages wait. */
  | { kind: 'paused' }
  | { kind: 'moved'; channel: string }
  | { kind: 'rest'; ms: number }

/**
 * Finds out whether a delivery can be sent now.
 * The account of `crm` is that of the delivery: a user who connects another account is another user (people/identity.ts).
 * @param turnMs how long the channel waits for its turn in the account; 0 if it has not asked for one yet.
 */
export function readinessOf(delivery: Delivery, turnMs: number): Readiness {
  const { crmId, crm, chat, channel } = delivery
  if (delivery.isEnded) return { kind: 'disconnected' }
  // Before all that fails, because a message that nobody wants does not fail.
  if (isOfDeal(delivery) && delivery.ruleIds.length === 0) {
    return { kind: 'end', state: 'ignored', reason: 'no_rule' }
  }
  if (crm === null || chat === null) return { kind: 'end', state: 'dead', reason: 'disconnected' }
  const broken = [crm, chat].find(isClosed)
  if (broken !== undefined) return { kind: 'broken', connection: broken }
  if (delivery.isPaused) return { kind: 'paused' }
  const { provider, channelId } = chat
  const chosenChannel = channelOf(chat)
  if (chosenChannel !== channel) return { kind: 'moved', channel: chosenChannel }
  if (channelId === null || !isChatId(provider)) {
    return { kind: 'end', state: 'dead', reason: 'no_channel' }
  }
  const waitMs = Math.max(delivery.channelFreeAt - performance.now(), turnMs)
  if (waitMs > shortWaitMs) return { kind: 'rest', ms: waitMs }
  const route = { crm: { ...crm, provider: crmId }, chat: { ...chat, provider }, channelId }
  return { kind: 'ready', route }
}
