// The last stage. It gets a message, the deliveries that it covers, and where it goes. It waits for the channel, claims
// the deliveries, posts the message, and records what the chat answered. It returns what the channel needs next. No
// other call posts the message while the claim lasts. A message that the chat accepted is recorded as sent, unless the
// process stops first.

import { setTimeout as delay } from 'node:timers/promises'
import type { AvailableRuleId } from '../../../contract/rules.ts'
import { errorFields } from '../../log.ts'
import { openSecrets } from '../../people/connections.ts'
import { recordAcceptance } from '../../people/refusals.ts'
import type { ChatMessage, MessageKey } from '../../providers/chat-message.ts'
import type { Chat, PostOutcome } from '../../providers/provider.ts'
import { countSent, messageRefused } from '../../watch/metrics.ts'
import { failpoint } from '../failpoint.ts'
import type { RelayParts } from '../parts.ts'
import { type Group, isOfDeal } from '../pick/delivery.ts'
import { done, goOn, type NextStep } from '../schedule/loop.ts'
import { type createTurns, pauseAccount } from '../schedule/pauses.ts'
import { type Claim, claim } from './claim.ts'
import { type Ends, type Failures, logFields } from './end.ts'
import { withStorable } from './group-sql.ts'
import { type OpenRoute, shortWaitMs } from './ready.ts'
import { recordSent, setAlone } from './record.ts'

export interface Parcel {
  group: Group
  message: ChatMessage
  /** The rules that apply, for the log. */
  ruleIds: readonly AvailableRuleId[]
}

export function createSend({
  database,
  vault,
  providers,
  log,
  times,
  processId,
  isStopping,
  turns,
  ends: { end, endSaid, putOff },
  failures: { retry, refused, clarify },
}: RelayParts & {
  turns: Pick<ReturnType<typeof createTurns>, 'take'>
  ends: Ends
  failures: Failures
}) {
  return async function send(parcel: Parcel, route: OpenRoute): Promise<NextStep> {
    const { group, message } = parcel
    const { chat, channelId } = route
    const secrets = openSecrets(vault, chat)
    const { post, pace } = providers[chat.provider]
    const claimed = await claimInTurn(group, route, pace)
    switch (claimed.kind) {
      case 'rest':
        return claimed
      case 'gone':
        return goOn
      case 'lease lost':
        return done
      case 'sent already':
        await endSaid(group)
        return goOn
    }
    const { claimedUntil, mayPost } = claimed
    const [head, ...rest] = group
    const first = { ...head, claimedUntil }
    const claimedGroup: Group = [first, ...rest.map((each) => ({ ...each, claimedUntil }))]
    // If this process stalled, its claim may end during the post. Another process could then send, too.
    if (!mayPost()) {
      log.warn('claim too old', logFields(first))
      const afterMs = times.firstRetryMs
      return await putOff(claimedGroup, { afterMs, reason: null })
    }
    const answer = await post(secrets, channelId, message, keyOf(group))
    failpoint('accepted', first.dealId)
    return await afterAnswer(answer, { ...parcel, group: claimedGroup }, route)
  }

  /** Waits until the channel is free and it has its turn in the account, and then claims. */
  async function claimInTurn(
    group: Group,
    { crm, chat }: OpenRoute,
    pace: Chat['pace'],
  ): Promise<Exclude<Claim, { kind: 'wait' }> | { kind: 'rest'; ms: number }> {
    const [{ channel, channelFreeAt }] = group
    let waitMs = channelFreeAt - performance.now()
    let hasTurn = false
    for (;;) {
      if (waitMs > shortWaitMs || (waitMs > 0 && isStopping())) return { kind: 'rest', ms: waitMs }
      if (waitMs > 0) await delay(waitMs)
      if (hasTurn) {
        const claimed = await withStorable(group, (some) =>
          claim(database, processId, some, [crm, chat], pace),
        )
        if (claimed.kind !== 'wait') return claimed
        waitMs = claimed.ms
      } else {
        // Before the claim, because a claim lasts for seconds only.
        waitMs = await turns.take(channel, pace)
        hasTurn = waitMs === 0
      }
    }
  }

  async function afterAnswer(
    answer: PostOutcome,
    parcel: Parcel,
    route: OpenRoute,
  ): Promise<NextStep> {
    const { group, message, ruleIds } = parcel
    const { crm, chat } = route
    const [first] = group
    switch (answer.kind) {
      case 'posted': {
        const { more, sameEvent } = await recordUntilRecorded(group, providers[chat.provider].pace)
        countSent(group.map(({ receivedAtMs }) => receivedAtMs))
        log('delivery sent', { ...logFields(first), messages: group.length, rules: ruleIds })
        await recordAcceptance(database, [crm, chat])
        if (sameEvent) await endSaid(group)
        // A test message does not show that the CRM works.
        if (first.passes.length > 0 && isOfDeal(first)) await setAlone(database, first.passes)
        return more ? goOn : done
      }
      case 'wait': {
        log.warn('channel rate limited', { ...logFields(first), waitMs: answer.ms })
        // The pause applies to all channels of the account, whoever has the lease.
        await pauseAccount(database, first.channel, answer.ms)
        const next = await putOff(group, { afterMs: 0, reason: 'rate_limited' })
        return next.kind === 'go on' ? { kind: 'rest', ms: answer.ms } : next
      }
      case 'failed': {
        const { reason, code = '' } = answer
        if (isLost.test(reason)) {
          const hasArrived = !neverArrived.test(code)
          const repeats = hasArrived && first.mayBePosted && !providers[chat.provider].knowsIds
          const tried = hasArrived ? withPosted(group, true) : group
          return await retry(tried, chat, reason, { ...answer, repeats })
        }
        // One change may make the whole digest fail. So each gets a message of its own, unless that could repeat one.
        const isSplit = group.length > 1 && first.attempts > 0 && !first.mayBePosted
        return await retry(group, chat, reason, { ...answer, ...(isSplit && { form: 'single' }) })
      }
      case 'unclear':
        return await afterAnswer(await clarify(chat, answer), parcel, route)
      case 'refused': {
        const { reason, connectionBroken, at } = answer
        if (connectionBroken) return await refused(group, chat, reason)
        if (message.paragraphs.length > 0) {
          log.warn('message refused', { ...logFields(first), messages: group.length, reason, at })
          // After a digest, each gets a message of its own. After that, it gets a plain text.
          const form = group.length > 1 ? 'single' : 'plain'
          const again = withPosted(group, false)
          return await putOff(again, { afterMs: 0, reason, countTry: true, form })
        }
        return await end(group, 'dead', reason, { countTry: true, countAs: messageRefused })
      }
    }
  }

  /** Repeats until it succeeds: otherwise the chat would get the message again. */
  async function recordUntilRecorded(
    group: Group,
    pace: Chat['pace'],
  ): ReturnType<typeof recordSent> {
    for (;;) {
      try {
        return await recordSent(database, group, pace)
      } catch (error) {
        log.error('delivery not recorded', { ...logFields(group[0]), ...errorFields(error) })
        if (isStopping()) throw error
        await delay(times.pollMs)
      }
    }
  }
}

/** The reasons of a failure after which the chat may have posted the message: nothing or a gateway has answered. */
const isLost = /^(?:unreachable|nonsense|DEADLINE_EXCEEDED|http_50[24]|http_52\d)$/

/** The codes of an error that comes before the chat has got anything. */
const neverArrived =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|E(?:HOST|NET)UNREACH|UND_ERR_CONNECT_TIMEOUT|PROXY_\d+)$|CERT/

function withPosted([first, ...others]: Group, mayBePosted: boolean): Group {
  return [{ ...first, mayBePosted }, ...others.map((each) => ({ ...each, mayBePosted }))]
}

/** What a message is about: its channel and its events. */
function keyOf(group: Group): MessageKey {
  const [{ channel, occurredAt }] = group
  return [channel, occurredAt, group.map(({ eventId }) => eventId)]
}
