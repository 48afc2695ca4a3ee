// `send/` gets a channel that this process leases, works on its next delivery, and returns what the channel needs next.
// This file calls the stages, which docs/server/relay.md draws. Each delivery ends as sent, ignored or dead, or it stays
// pending until its next try. The chat gets each event once, except if its answer is lost, or is not recorded before the
// claim ends.

import { createWithAccess } from '../../people/access-token.ts'
import { createChangeReader, type ReadBy } from '../decide/change.ts'
import type { RelayParts } from '../parts.ts'
import {
  type DealDelivery,
  type Delivery,
  fewestInDigest,
  isOfDeal,
  longestPutOffMs,
} from '../pick/delivery.ts'
import { nextDelivery } from '../pick/next.ts'
import { done, goOn, type NextStep, whileLeased } from '../schedule/loop.ts'
import { createTurns } from '../schedule/pauses.ts'
import { digestOf } from '../write/digest.ts'
import {
  type MessageEntry,
  messageFor,
  plainMessageFor,
  plainTestMessage,
  testMessage,
} from '../write/message.ts'
import { createEnds, createFailures } from './end.ts'
import { createMentions } from './mention.ts'
import { type OpenRoute, readinessOf } from './ready.ts'
import { moveToChannel } from './record.ts'
import { createSend, type Parcel } from './send.ts'
import { createTell, type Told } from './tell.ts'

/** The channels of one account that one process works on at the same time. The others have room beside them. */
const mostOfAccount = 100
/** Further channels of the account come so much later, one after the other. */
const laterMs = 500
const apartMs = 20

export function createWork(dependencies: RelayParts) {
  const { database, providers, times, processId } = dependencies
  const turns = createTurns(dependencies.countCall)
  const withAccess = createWithAccess(dependencies)
  const changes = createChangeReader(providers, withAccess, times)
  const memberFor = createMentions(dependencies)
  const ends = createEnds(dependencies)
  const failures = createFailures({ ...dependencies, withAccess, ends })
  const send = createSend({
    ...dependencies,
    turns,
    ends,
    failures,
  })
  const tellNext = createTell({ database, providers, changes, ends })
  const { end, endBacklog, putOff } = ends
  const { afterError } = failures
  const places = createPlaces()

  return {
    work,
    reportIgnored: ends.reportIgnored,
  }

  /** Works on the next delivery of a channel, or on several with one digest. */
  async function work(channel: string): Promise<NextStep> {
    const next = await nextDelivery(database, channel)
    if (next.kind === 'nothing') return done
    if (next.kind === 'wait') return { kind: 'rest', ms: next.ms, failing: next.failing }
    const { delivery } = next
    return await places.of(delivery.accountId, () => deliver(delivery))
  }

  async function deliver(delivery: Delivery): Promise<NextStep> {
    const readiness = readinessOf(delivery, turns.waitOf(delivery.channel))
    switch (readiness.kind) {
      case 'end':
        return await end([delivery], readiness.state, readiness.reason)
      case 'disconnected':
        return await endBacklog(delivery, 'disconnected')
      case 'broken':
        return await endBacklog(delivery, readiness.connection)
      case 'moved':
        return whileLeased(await moveToChannel(database, processId, delivery, readiness.channel))
      case 'paused':
        // A resumption ends the wait (activity/account.ts).
        return await putOff([delivery], { afterMs: longestPutOffMs, reason: 'paused' })
      case 'rest':
        return readiness
    }
    const { route } = readiness
    try {
      if (isOfDeal(delivery)) return await tell(delivery, route)
      const message = isPlain(delivery) ? plainTestMessage : testMessage
      return await send({ group: [delivery], message, ruleIds: [] }, route)
    } catch (error) {
      return await afterError(delivery, route.crm, error)
    }
  }

  async function tell(first: DealDelivery, route: OpenRoute): Promise<NextStep> {
    const isDigest =
      first.form === null && (first.mayBePosted || first.pendingInChannel >= fewestInDigest)
    const by: ReadBy = { crm: route.crm, urgency: isDigest ? 'backlog' : 'fresh' }
    const { told, mustWait, isLeased } = await tellNext(first, by, { isDigest })
    if (!isLeased) return done
    const [head, ...others] = told
    if (head !== undefined) return await send(await parcelOf([head, ...others], by, route), route)
    if (mustWait === undefined) return goOn
    if ('error' in mustWait) return await afterError(mustWait.delivery, route.crm, mustWait.error)
    return await putOff([mustWait.delivery], { afterMs: mustWait.afterMs, reason: null })
  }

  /**
   * Writes a digest, or a message about the first change if there are only a few. What may repeat a digest stays one
   * message, also if only a few of its changes still need one.
   */
  async function parcelOf(
    told: readonly [Told, ...Told[]],
    by: ReadBy,
    route: OpenRoute,
  ): Promise<Parcel> {
    const [head, ...others] = told
    const fewest = head.delivery.mayBePosted ? 2 : fewestInDigest
    if (told.length < fewest) {
      const { delivery, entry } = head
      const message = isPlain(delivery)
        ? plainMessageFor(entry)
        : messageFor(await withOwner(entry, by, route))
      return { group: [delivery], message, ruleIds: [entry.ruleId] }
    }
    const { message, covers } = digestOf(
      told.map(({ entry }) => entry),
      providers[route.chat.provider].fits,
    )
    const rest = others.slice(0, covers - 1)
    const ruleIds = [...new Set([head, ...rest].map(({ entry }) => entry.ruleId))]
    return { group: [head.delivery, ...rest.map(({ delivery }) => delivery)], message, ruleIds }
  }

  /** Adds the owner. Digests do without: it may cost two calls for each deal. */
  async function withOwner(
    entry: MessageEntry,
    by: ReadBy,
    { chat }: OpenRoute,
  ): Promise<MessageEntry> {
    const { ownerId, deal } = entry
    const owner = ownerId ? await changes.owner(ownerId, by) : undefined
    if (owner === undefined) return entry
    const ownerInChat = owner.email && (await memberFor(chat, owner.email))
    return { ...entry, deal: { ...deal, ownerName: owner.name, ownerInChat } }
  }
}

const isPlain = ({ form }: Delivery) => form === 'plain'

/** Counts the channels of each account that this process works on, and lets those rest that are too many. */
function createPlaces() {
  const accounts = new Map<string, { working: number; laterAt: number }>()

  return {
    async of(accountId: string, deliver: () => Promise<NextStep>): Promise<NextStep> {
      const account = accounts.get(accountId) ?? { working: 0, laterAt: 0 }
      if (account.working >= mostOfAccount) {
        const now = performance.now()
        account.laterAt = Math.max(account.laterAt + apartMs, now + laterMs)
        return { kind: 'rest', ms: account.laterAt - now }
      }
      accounts.set(accountId, account)
      account.working++
      try {
        return await deliver()
      } finally {
        account.working--
        if (account.working === 0) accounts.delete(accountId)
      }
    },
  }
}
