// `send/` gets a channel that this process leases, and works on its next delivery. This file calls the stages in
// their order:
//
//   Delivery      the first one that need not wait, and those that the same message may cover    pick/
//   Change        what the CRM says of the deal                                                  decide/change.ts
//   Decision      the rule and the headline, or no rule, or look again                           decide/rules.ts
//   ChatMessage   about one change, or a digest                                                  write/
//   Outcome       what the channel needs next                                                    send/send.ts
//
// Nothing is read from the CRM for a delivery that must wait or that nobody gets (ready.ts). Each delivery ends as
// sent, ignored or dead, or it stays pending until its next try. The chat gets each event once, except if its answer
// is lost, or is not recorded before the claim ends.

import { LRUCache } from 'lru-cache'
import type { Database } from '../../database/open.ts'
import type { Log } from '../../log.ts'
import { createWithAccess } from '../../people/access-token.ts'
import type { Vault } from '../../people/vault.ts'
import type { Providers } from '../../providers/provider.ts'
import { type Candidate, createChangeReader, type ReadBy } from '../decide/change.ts'
import { decide } from '../decide/rules.ts'
import { type DealDelivery, type Delivery, fewestInDigest, isOfDeal } from '../pick/delivery.ts'
import { nextDelivery } from '../pick/next.ts'
import { createBusyAccounts } from '../schedule/busy-accounts.ts'
import { done, goOn, type Outcome, whileLeased } from '../schedule/outcome.ts'
import { createWorkspacePace } from '../schedule/pauses.ts'
import type { RelayTimes } from '../times.ts'
import { digestOf } from '../write/digest.ts'
import { entryOf, type MessageEntry, messageFor, testMessage } from '../write/message.ts'
import { shownOfChange, shownOfValue } from '../write/shown.ts'
import { collect, digestPages, type Held, singlePage, type Told, type Verdict } from './collect.ts'
import { createEnds } from './end.ts'
import { createFailures } from './failure.ts'
import { type OpenRoute, readinessOf } from './ready.ts'
import { moveToChannel } from './record.ts'
import { createSend, type Parcel } from './send.ts'

/** The longest time until the relay looks again at a channel in which all deliveries must wait. */
const longestRestMs = 5_000
/** The wait of a channel whose account is busy in too many other channels. */
const busyAccountRestMs = 500
/** So many deliveries are remembered. The chat would refuse the digest of a forgotten one once more. */
const mostRemembered = 1_000

interface WorkDependencies {
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
export function createWork(dependencies: WorkDependencies): (channel: string) => Promise<Outcome> {
  const { database, providers, times, owner, isStopping } = dependencies
  /** Deliveries whose digest the chat refused because of its form. Each gets a message of its own. */
  const refusedInDigest = new LRUCache<number, true>({ max: mostRemembered })
  const mayDigest = ({ id }: Delivery) => !refusedInDigest.has(id)
  const unlessBusy = createBusyAccounts()
  const pace = createWorkspacePace()
  const changes = createChangeReader(providers, createWithAccess(dependencies), times)
  const ends = createEnds(dependencies)
  const failures = createFailures({ ...dependencies, ends })
  const send = createSend({
    ...dependencies,
    pace,
    ends,
    failures,
    onDigestRefused(group) {
      for (const { id } of group) refusedInDigest.set(id, true)
    },
  })
  const { end, endOfBroken, putOff } = ends
  const { afterError } = failures

  return async function work(channel) {
    const next = await nextDelivery(database, providers, channel)
    if (next.kind === 'nothing') return done
    if (next.kind === 'wait') return { kind: 'rest', ms: Math.min(next.ms, longestRestMs) }
    const { delivery } = next
    const account = `${delivery.crmId}/${delivery.accountId}`
    const outcome = await unlessBusy(account, () => deliver(delivery))
    return outcome ?? { kind: 'rest', ms: busyAccountRestMs }
  }

  async function deliver(delivery: Delivery): Promise<Outcome> {
    const readiness = readinessOf(delivery, pace.waitOf(delivery.channel))
    switch (readiness.kind) {
      case 'end':
        return await end([delivery], readiness.state, readiness.reason)
      case 'broken':
        return await endOfBroken(delivery, readiness.connection)
      case 'moved':
        return whileLeased(await moveToChannel(database, owner, delivery, readiness.channel))
      case 'rest':
        return readiness
    }
    const { route } = readiness
    try {
      if (isOfDeal(delivery)) return await tell(delivery, route)
      return await send({ group: [delivery], message: testMessage, ruleIds: [] }, route)
    } catch (error) {
      return await afterError(delivery, route.crm, error)
    }
  }

  /** From a delivery to its outcome. One message may also cover the deliveries after it. */
  async function tell(first: DealDelivery, route: OpenRoute): Promise<Outcome> {
    const isDigest = first.pendingInChannel >= fewestInDigest && mayDigest(first)
    const by: ReadBy = { crm: route.crm, urgency: isDigest ? 'backlog' : 'fresh' }
    const pages = isDigest
      ? digestPages(database, first, { mayDigest, isStopping })
      : singlePage(first)
    const { told, skipped, held } = await collect(first, pages, {
      candidatesOf: (deliveries) => changes.candidatesOf(deliveries, by),
      verdictOn: (candidates) => verdictOn(candidates, by),
    })
    for (const [reason, some] of Map.groupBy(skipped, ({ reason }) => reason)) {
      const ended = some.map(({ delivery }) => delivery)
      const outcome = await end(ended, 'ignored', reason)
      if (outcome.kind === 'done') return outcome
    }
    const [head, ...others] = told
    if (head !== undefined) return await send(await write([head, ...others], by), route)
    return held === undefined ? goOn : await hold(held, route)
  }

  /** Delivery → Change → Decision, for the first candidate. */
  async function verdictOn(
    candidates: readonly [Candidate, ...Candidate[]],
    by: ReadBy,
  ): Promise<Verdict> {
    const [{ delivery, stage }] = candidates
    const atMs = Date.now()
    const change = await changes.changeOf(candidates, by, atMs)
    if (change === undefined) {
      return { kind: 'skip', reason: 'no_such_deal', shown: shownOfValue({ ...delivery, stage }) }
    }
    const lookAgainMs = changes.lookAgainAt(delivery) - atMs
    const decision = decide(change, new Set(delivery.ruleIds), { mayLookAgain: lookAgainMs > 0 })
    switch (decision.kind) {
      case 'send':
        return {
          kind: 'tell',
          entry: entryOf(change, decision, { occurredAt: delivery.occurredAt, atMs }),
        }
      case 'look again':
        return { kind: 'look again', afterMs: lookAgainMs }
      case 'nothing':
        return { kind: 'skip', reason: 'no_rule', shown: shownOfChange(change) }
    }
  }

  /** Decisions → ChatMessage: a digest, or a message about the first change if there are only a few. */
  async function write(told: readonly [Told, ...Told[]], by: ReadBy): Promise<Parcel> {
    const [head, ...others] = told
    if (told.length < fewestInDigest) {
      const { delivery, entry } = head
      const message = messageFor(await withOwner(entry, by))
      return { group: [delivery], message, ruleIds: [entry.ruleId] }
    }
    const { message, covers } = digestOf(told.map(({ entry }) => entry))
    const rest = others.slice(0, covers - 1)
    const ruleIds = [...new Set([head, ...rest].map(({ entry }) => entry.ruleId))]
    return { group: [head.delivery, ...rest.map(({ delivery }) => delivery)], message, ruleIds }
  }

  /** Adds the owner's name. Digests do without: it may cost a call for each deal. */
  async function withOwner(entry: MessageEntry, by: ReadBy): Promise<MessageEntry> {
    const { ownerId, deal } = entry
    if (!ownerId) return entry
    return { ...entry, deal: { ...deal, ownerName: await changes.ownerName(ownerId, by) } }
  }

  async function hold(held: Held, { crm }: OpenRoute): Promise<Outcome> {
    const { delivery } = held
    if (held.kind === 'failed') return await afterError(delivery, crm, held.error)
    return await putOff([delivery], { afterMs: held.afterMs, reason: null, countTry: false })
  }
}
