// `send/` gets a channel that this process leases, works on its next delivery, and returns what the channel needs next.
// This file calls the stages, from top to bottom:
//
//   pick/next.ts         channel      → Delivery       the first one that need not wait
//   send/ready.ts        Delivery     → Readiness      an OpenRoute, or what prevents a message now
//   pick/following.ts    Delivery     → Page           a digest looks at those after it, too
//   send/candidates.ts   Page         → Candidate      reads the stages, and finds those to which a rule may apply
//   send/verdict.ts      Candidate    → Verdict        calls these three:
//     decide/change.ts   Candidate    → Change         reads the deal, and its links if the decision needs them
//     decide/rules.ts    Change       → Decision       a pure function
//     write/message.ts   Decision     → MessageEntry   what a message says of the Change
//   parcelOf, below      Verdict      → Parcel         reads the owner; write/ makes the message, for several a digest
//   send/send.ts         Parcel       → NextStep       waits, claims, posts, records
//
// Each delivery ends as sent, ignored or dead, or it stays pending until its next try. The chat gets each event once,
// except if its answer is lost, or is not recorded before the claim ends.

import { createCache } from '../../cache.ts'
import type { CountCall } from '../../database/call-counter.ts'
import type { Database } from '../../database/open.ts'
import type { Log } from '../../log.ts'
import { createWithAccess } from '../../people/access-token.ts'
import type { Vault } from '../../people/vault.ts'
import type { Providers } from '../../providers/provider.ts'
import { createChangeReader, type ReadBy } from '../decide/change.ts'
import { type DealDelivery, type Delivery, fewestInDigest, isOfDeal } from '../pick/delivery.ts'
import { digestPages, onePage, type Page } from '../pick/following.ts'
import { nextDelivery } from '../pick/next.ts'
import { done, goOn, type NextStep, whileLeased } from '../schedule/channels.ts'
import { createWorkspaceTurns } from '../schedule/pauses.ts'
import type { RelayTimes } from '../times.ts'
import { digestOf, mostInDigest } from '../write/digest.ts'
import { type MessageEntry, messageFor, plainMessageFor, testMessage } from '../write/message.ts'
import { eachCandidate, type Skipped } from './candidates.ts'
import { createEnds, createFailures } from './end.ts'
import { createMentions } from './mention.ts'
import { type OpenRoute, readinessOf } from './ready.ts'
import { moveToChannel } from './record.ts'
import { createSend, type Parcel } from './send.ts'
import { type Told, verdictOf } from './verdict.ts'

/** The longest time until the relay looks again at a channel in which all deliveries must wait. */
const longestRestMs = 5_000
/** So many deliveries are remembered. The chat would refuse the message of a forgotten one once more. */
const mostRemembered = 1_000

interface WorkDependencies {
  database: Database
  vault: Vault
  providers: Providers
  log: Log
  times: RelayTimes
  /** The id of this process, which holds the leases. */
  processId: string
  countCall: CountCall | undefined
  isStopping: () => boolean
}

/** What was decided about the deliveries that the next message may cover. */
interface Decided {
  /** Those that the message tells, in its order. */
  told: Told[]
  skipped: Skipped[]
  /** One that must wait, and with it all after it. All before it can be sent or ended. */
  mustWait?: { delivery: DealDelivery } & ({ afterMs: number } | { error: unknown })
}

interface Work {
  /** Works on the next delivery of a channel, or on several with one digest. */
  work: (channel: string) => Promise<NextStep>
  /** Logs what was ignored since the last report. */
  reportIgnored: () => void
}

/** Creates the function that works on a channel. */
export function createWork(dependencies: WorkDependencies): Work {
  const { database, providers, times, processId, isStopping } = dependencies
  /**
   * Deliveries whose message the chat refused, although the connection works. After a digest, each gets a message of its
   * own. After that, it gets a plain text.
   */
  const refusedForms = createCache<'digest' | 'blocks', number>(mostRemembered)
  const mayDigest = ({ id }: Delivery) => !refusedForms.has(id)
  const isPlain = ({ id }: Delivery) => refusedForms.get(id) === 'blocks'
  const turns = createWorkspaceTurns(dependencies.countCall)
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
    onFormRefused(group) {
      for (const { id } of group) refusedForms.set(id, group.length > 1 ? 'digest' : 'blocks')
    },
  })
  const { end, endOfBroken, putOff } = ends
  const { afterError } = failures

  return {
    work,
    reportIgnored: ends.reportIgnored,
  }

  async function work(channel: string): Promise<NextStep> {
    const next = await nextDelivery(database, channel)
    if (next.kind === 'nothing') return done
    if (next.kind === 'wait') return { kind: 'rest', ms: Math.min(next.ms, longestRestMs) }
    return await deliver(next.delivery)
  }

  async function deliver(delivery: Delivery): Promise<NextStep> {
    const readiness = readinessOf(delivery, turns.waitOf(delivery.channel))
    switch (readiness.kind) {
      case 'end':
        return await end([delivery], readiness.state, readiness.reason)
      case 'broken':
        return await endOfBroken(delivery, readiness.connection)
      case 'moved':
        return whileLeased(await moveToChannel(database, processId, delivery, readiness.channel))
      case 'rest':
        return readiness
    }
    const { route } = readiness
    try {
      if (isOfDeal(delivery)) return await tell(delivery, route)
      const message = isPlain(delivery) ? { ...testMessage, blocks: [] } : testMessage
      return await send({ group: [delivery], message, ruleIds: [] }, route)
    } catch (error) {
      return await afterError(delivery, route.crm, error)
    }
  }

  /** Sends the message about a change, or about several with one digest. */
  async function tell(first: DealDelivery, route: OpenRoute): Promise<NextStep> {
    const maybeRepeats = first.claimedUntil !== null
    const isDigest = mayDigest(first) && (maybeRepeats || first.pendingInChannel >= fewestInDigest)
    const by: ReadBy = { crm: route.crm, urgency: isDigest ? 'backlog' : 'fresh' }
    const pages = isDigest
      ? digestPages(database, first, { mayDigest, isStopping })
      : onePage([first])
    const { told, skipped, mustWait } = await decideAll(first, pages, by)
    for (const [reason, some] of Map.groupBy(skipped, ({ reason }) => reason)) {
      const ended = some.map(({ delivery }) => delivery)
      const step = await end(ended, 'ignored', reason)
      if (step.kind === 'done') return step
    }
    const [head, ...others] = told
    if (head !== undefined) return await send(await parcelOf([head, ...others], by, route), route)
    if (mustWait === undefined) return goOn
    if ('error' in mustWait) return await afterError(mustWait.delivery, route.crm, mustWait.error)
    return await putOff([mustWait.delivery], {
      afterMs: mustWait.afterMs,
      reason: null,
      countTry: false,
    })
  }

  /**
   * Decides about the deliveries in their order, until the message is full, a delivery must wait, or there are no more.
   */
  async function decideAll(
    first: DealDelivery,
    pages: AsyncIterable<Page>,
    by: ReadBy,
  ): Promise<Decided> {
    const told: Told[] = []
    const skipped: Skipped[] = []
    const skip = (each: Skipped) => skipped.push(each)
    let delivery = first
    try {
      for await (const candidates of eachCandidate(pages, { changes, by, skip })) {
        delivery = candidates[0].delivery
        const verdict = await verdictOf(candidates, { changes, by })
        if (verdict.kind === 'look again') return { told, skipped, mustWait: verdict }
        if (verdict.kind === 'skip') skipped.push(verdict)
        else told.push(verdict)
        if (told.length === mostInDigest) break
      }
    } catch (error) {
      return { told, skipped, mustWait: { delivery, error } }
    }
    return { told, skipped }
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
    const fewest = head.delivery.claimedUntil === null ? fewestInDigest : 2
    if (told.length < fewest) {
      const { delivery, entry } = head
      const message = isPlain(delivery)
        ? plainMessageFor(entry)
        : messageFor(await withOwner(entry, by, route))
      return { group: [delivery], message, ruleIds: [entry.ruleId] }
    }
    const { message, covers } = digestOf(told.map(({ entry }) => entry))
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
