// What becomes of deliveries that get no message now: they end as ignored or dead, or they are put off and tried again.
// Of the chat's answers, `afterAnswer` in send.ts decides which are failures.

import { isDatabaseFailure } from '../../database/failure.ts'
import { errorFields } from '../../log.ts'
import type { CrmConnection, WithAccess } from '../../people/access-token.ts'
import { type Connection, openSecrets } from '../../people/connections.ts'
import { recordRefusal } from '../../people/refusals.ts'
import { type PostOutcome, unknownRefusal } from '../../providers/provider.ts'
import { ProviderError } from '../../providers/provider-error.ts'
import { isCrmId } from '../../providers/registry.ts'
import { countEnded } from '../../watch/metrics.ts'
import type { RelayParts } from '../parts.ts'
import { type Delivery, type Group, limitOf, longestPutOffMs } from '../pick/delivery.ts'
import { goOn, type NextStep, whileLeased } from '../schedule/loop.ts'
import { withStorable } from './group-sql.ts'
import {
  type BacklogEnd,
  endBacklog,
  endSaid,
  type PutOff,
  recordEnd,
  recordPutOff,
} from './record.ts'

const reportEveryMs = 60_000

export type Ends = ReturnType<typeof createEnds>

export function createEnds({ database, providers, log, processId }: RelayParts) {
  /** How many deliveries were ignored since the last report, by reason. */
  const ignored = new Map<string, number>()
  let reporting: NodeJS.Timeout | undefined

  /** Sums them up: one edit in bulk ends thousands. */
  function reportIgnored(): void {
    clearTimeout(reporting)
    reporting = undefined
    if (ignored.size > 0) log('deliveries ignored', { reasons: Object.fromEntries(ignored) })
    ignored.clear()
  }

  function count(state: 'dead' | 'ignored', reason: string, ended: number): void {
    countEnded(state, reason, ended, providers)
    if (state === 'dead' || ended === 0) return
    ignored.set(reason, (ignored.get(reason) ?? 0) + ended)
    reporting ??= setTimeout(reportIgnored, reportEveryMs).unref()
  }

  return {
    /** Ends deliveries. Set `countTry` after a failed try. `countAs` is the reason in the metrics. */
    async end(
      group: readonly Delivery[],
      state: 'dead' | 'ignored',
      reason: string,
      { countTry = false, countAs = reason }: { countTry?: boolean; countAs?: string } = {},
    ): Promise<NextStep> {
      const [first, ...others] = group
      if (first === undefined) return goOn
      const { ended, isLeased } = await withStorable([first, ...others], (some) =>
        recordEnd(database, processId, some, { state, reason, countTry }),
      )
      // Another process may have ended the rest, and has counted it.
      count(state, countAs, ended.length)
      const endedIds = new Set(ended)
      for (const delivery of group.filter(({ id }) => endedIds.has(id))) {
        const fields = { ...logFields(delivery), reason }
        if (state === 'dead') log.warn('delivery dead', fields)
        else log.debug('delivery ignored', fields)
      }
      return whileLeased(isLeased)
    },

    /** Ends what waits for a connection that is broken or gone, a batch of it. */
    async endBacklog(delivery: Delivery, why: BacklogEnd): Promise<NextStep> {
      const ended = await endBacklog(database, processId, delivery, why)
      const reason = why === 'disconnected' ? why : why.brokenReason
      if (ended !== undefined) count('dead', reason ?? '', ended)
      log.warn('delivery dead', { ...logFields(delivery), messages: ended ?? 0, reason })
      return whileLeased(ended !== undefined)
    },

    /** Ends the deliveries of the same events to other users, if the channel has a message about them. */
    async endSaid(group: Group): Promise<void> {
      const isShared = providers[group[0].crmId].readsAs === 'account'
      count('ignored', 'said_in_channel', await endSaid(database, group, isShared))
    },

    async putOff(group: Group, options: PutOff): Promise<NextStep> {
      return whileLeased(await recordPutOff(database, processId, group, options))
    },

    reportIgnored,
  }
}

export function logFields({ id, eventId, crm, chat }: Delivery) {
  return { delivery: id, dealEvent: eventId, connections: [crm?.id, chat?.id] }
}

/** After this many failed tries, a delivery is dead. The tries take about two hours. */
const maxAttempts = 20
/** As many, if each shows the message again. Their waits are longer, so that the chat has some minutes to recover. */
const maxRepeats = 5
const repeatWaits = 15
/** While a provider answers nothing at all, the tries go on until the event is so old. */
const longestOutageMs = 24 * 60 * 60_000

/** What a provider answers to a simple question. */
type Said =
  | { kind: 'works' | 'away' | 'cannot be asked' }
  | { kind: 'wait'; ms: number }
  | { kind: 'refused'; reason: string | undefined }

export type Failures = ReturnType<typeof createFailures>

export function createFailures({
  database,
  vault,
  providers,
  withAccess,
  log,
  times,
  ends: { end, putOff },
}: RelayParts & { withAccess: WithAccess; ends: Ends }) {
  /** Asks a provider a simple question. @returns what it answers about the connection. */
  async function ask(connection: Connection): Promise<Said> {
    const { provider, channelId } = connection
    try {
      if (isCrmId(provider)) {
        // A deal with this id need not exist.
        await withAccess({ ...connection, provider }, 'backlog', (access) =>
          providers[provider].deal(access, '1', { history: undefined, links: false }),
        )
      } else {
        const { check } = providers[provider]
        if (check === undefined) return { kind: 'cannot be asked' }
        await check(openSecrets(vault, connection), channelId)
      }
      return { kind: 'works' }
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
      const { kind, reason, retryAfterMs } = error
      if (retryAfterMs !== undefined) return { kind: 'wait', ms: retryAfterMs }
      return kind === 'unreachable' || kind === 'nonsense'
        ? { kind: 'away' }
        : { kind: 'refused', reason }
    }
  }

  /**
   * Finds out whether a chat refuses a message or the connection. If this stays unknown, the message is tried again. So
   * neither the message nor the connection is given up by mistake.
   */
  async function clarify(
    chat: Connection,
    { reason, at }: PostOutcome & { kind: 'unclear' },
  ): Promise<PostOutcome> {
    const said = await ask(chat)
    if (said.kind === 'wait') return said
    if (said.kind === 'works') return { kind: 'refused', reason, connectionBroken: false, at }
    const { reason: why } = said.kind === 'refused' ? said : {}
    return why !== undefined && Object.hasOwn(providers[chat.provider].brokenReasons, why)
      ? { kind: 'refused', reason: why, connectionBroken: true }
      : { kind: 'failed', reason }
  }

  /**
   * Counts a failed try of a connection, or of nobody. The deliveries are tried again later, or are dead after the last
   * try. If the provider works, they fail alone.
   * @param repeats the answer was lost again, and the chat knows no ids of messages. So each try may post the message again.
   */
  async function retry(
    group: Group,
    connection: Connection | undefined,
    reason: string,
    {
      field,
      code,
      form,
      repeats = false,
    }: {
      repeats?: boolean
      field?: string | undefined
      code?: string | undefined
      form?: PutOff['form']
    } = {},
  ): Promise<NextStep> {
    // Those of a digest may have had different numbers of tries.
    const most = repeats ? maxRepeats : maxAttempts
    const isTried = ({ attempts }: Delivery) => attempts + 1 >= most
    // A bug of ours fails this message alone. Who did not answer is not asked at once: that would take as long again.
    let said: Said['kind'] = code === undefined ? 'works' : 'away'
    const mustAsk = code === undefined && !group[0].alone
    if (connection && (mustAsk || group.some(isTried))) said = (await ask(connection)).kind
    const mayWait =
      ['away', 'wait'].includes(said) ||
      (said === 'cannot be asked' && !repeats && /^(unreachable|http_50[234])$/.test(reason))
    const alone = group[0].alone || said === 'works'
    const isLast = (delivery: Delivery) =>
      isTried(delivery) && !(mayWait && performance.now() - delivery.receivedAtMs < longestOutageMs)
    const { last = [], again = [] } = Object.groupBy(group, (delivery) =>
      isLast(delivery) ? 'last' : 'again',
    )
    const ended = await end(last, 'dead', reason, { countTry: true })
    const [first, ...others] = again
    if (first === undefined) return ended
    const tries = first.attempts + 1
    const afterMs = retryAfterMs(tries, times.firstRetryMs * (repeats ? repeatWaits : 1))
    const next = await putOff([first, ...others], {
      ...{ afterMs, reason, countTry: true, alone },
      ...(form && { form }),
    })
    log('delivery put off', { ...logFields(first), reason, field, code, tries, afterMs })
    return next.kind === 'go on' ? { ...next, failing: !alone } : next
  }

  /** Handles an error before the message was posted. @throws the error if the database failed. */
  async function afterError(
    delivery: Delivery,
    crm: CrmConnection,
    error: unknown,
  ): Promise<NextStep> {
    // The whole channel rests: the next delivery needs the database, too.
    if (isDatabaseFailure(error)) throw error
    if (!(error instanceof ProviderError)) {
      // A bug in our code must not stop the channel.
      log.error('delivery failed', { ...logFields(delivery), ...errorFields(error) })
      return await retry([delivery], undefined, 'internal_error')
    }
    if (error.reason === 'disconnected') return await end([delivery], 'dead', 'disconnected')
    if (error.kind === 'refused') {
      const { reason: code = 'refused' } = error
      const isKnown = Object.hasOwn(providers[crm.provider].brokenReasons, code)
      const reason =
        isKnown || error.reason === undefined ? code : unknownRefusal(crm.provider, code)
      return await refused([delivery], crm, reason)
    }
    if (error.retryAfterMs !== undefined) {
      return await putOff([delivery], {
        afterMs: error.retryAfterMs,
        reason: limitOf(crm.provider),
      })
    }
    return await retry([delivery], crm, `${crm.provider}_${error.reason ?? error.kind}`, error)
  }

  /** Handles a refusal that may break a connection. The deliveries are tried once more, and then they are dead. */
  async function refused(group: Group, connection: Connection, reason: string): Promise<NextStep> {
    const { id, provider } = connection
    const { askAgainMs: afterMs } = times
    const isFinal = providers[provider].finalReasons?.has(reason) === true
    const isBroken = await recordRefusal(database, connection, reason, { afterMs, isFinal })
    const fields = { connection: id, provider, reason }
    if (isBroken) log.warn('connection broken', fields)
    else log('connection refused', fields)
    return isBroken
      ? await end(group, 'dead', reason, { countTry: true })
      : await putOff(group, { afterMs, reason: null, countTry: true })
  }

  return { retry, afterError, refused, clarify }
}

/**
 * Returns the wait after the given number of failed tries, in ms. It doubles with each try, up to
 * 15 minutes. Half of it is random, so that deliveries that failed together try again at different
 * times.
 */
export function retryAfterMs(tries: number, firstMs: number, random = Math.random): number {
  const most = Math.min(firstMs * 2 ** (tries - 1), longestPutOffMs)
  return Math.round(most / 2 + (most / 2) * random())
}
