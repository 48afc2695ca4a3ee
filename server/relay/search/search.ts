// Gets an account, and until when it has been searched. Finds the changes since then of the properties that a ticked rule
// is about, and gives them to the inbox, which leaves out those that a webhook brought. Where each token sees other deals,
// each user's token searches. Returns until when the account is searched now. A deal that cannot be read stops no other
// one. If a call has failed, it throws at its end, and the next search goes back as far: a deal that this one did not read
// may also have older changes than those that it read.

import { createHash } from 'node:crypto'
import { and, eq, isNull, notInArray, type SQL, sql } from 'drizzle-orm'
import { createCache } from '../../cache.ts'
import { connections, rules } from '../../database/schema.ts'
import type { Log } from '../../log.ts'
import type { AccessDependencies, CrmConnection } from '../../people/access-token.ts'
import { chatOf } from '../../people/routes.ts'
import type { ChangedDeals, DealEvent } from '../../providers/deal.ts'
import { isOfToken, isTooLarge, ProviderError } from '../../providers/provider-error.ts'
import type { CrmId, DealProperty } from '../../providers/registry.ts'
import { dealsAtOnce } from '../decide/deals.ts'
import { formerValue } from '../decide/former-value.ts'
import { propertiesOf } from '../decide/rules.ts'
import {
  createBreaks,
  createSpareCalls,
  dealsChangedSince,
  dealsInBatches,
  reportedChanges,
} from '../past-changes.ts'
import type { Inbox } from '../receive/inbox.ts'
import { dealsWithNews } from '../receive/store.ts'

/** A CRM repeats webhooks for a day at most. Whoever was away for longer wants no older news. */
export const lookBackMs = 3 * 24 * 60 * 60_000
/** A search finds a change only after some moments. So searches overlap. */
const overlapMs = 10 * 60_000
/** The webhook of a younger change is probably on its way. */
export const graceMs = 2 * 60_000
/** Where each token sees other deals: if so many users of an account got no answer, the others wait for the next search. */
const mostUnanswered = 3
/** If the histories of so many deals cannot be read, the others wait for the next search: each try costs. */
const mostFailed = 3
/** Histories that were read, and connections without an answer: so many of each are remembered, in some 5 MB. */
const mostRemembered = 20_000
/** The most that our clock may be ahead of the CRM's clock when a user connects an account. */
export const clockErrorMs = 60 * 60_000

export interface Account {
  crm: CrmId
  accountId: string
  /** By the clock of the CRM. */
  searchedUntilMs: number
}

export interface SearchDependencies extends AccessDependencies {
  inbox: Inbox
  log: Log
}

/**
 * Creates the function that searches an account.
 * @returns a function that returns the start of the search by the CRM's clock, or by ours if no rule needs a search.
 */
export function createSearch(
  { database, vault, providers, inbox, log }: SearchDependencies,
  { retryMs, renewLease }: { retryMs: number; renewLease: (account: Account) => Promise<void> },
): (account: Account, signal: AbortSignal) => Promise<number> {
  const reading = createSpareCalls({ database, vault, providers })
  /** Histories that were read and would show nothing new. */
  const read = createCache<true>(mostRemembered)
  /** When a connection got no answer, by performance.now(). */
  const unansweredAt = createCache<number>(mostRemembered)

  const ofAccount = ({ crm, accountId }: Account) =>
    and(
      eq(connections.provider, crm),
      eq(connections.accountId, accountId),
      isNull(connections.brokenSince),
    )

  async function workingConnection(
    { crm }: Account,
    which: SQL | undefined,
    refused: readonly string[],
  ): Promise<CrmConnection | undefined> {
    const [row] = await database
      .select()
      .from(connections)
      .where(and(which, notInArray(connections.id, [...refused])))
      .orderBy(connections.connectedAt)
      .limit(1)
    return row && { ...row, provider: crm }
  }

  async function propertiesOfRules(which: SQL | undefined): Promise<DealProperty[]> {
    const rows = await database
      .select({ ruleIds: rules.ruleIds })
      .from(connections)
      .innerJoin(rules, eq(rules.userId, connections.userId))
      .where(which)
    return propertiesOf(rows.flatMap(({ ruleIds }) => ruleIds))
  }

  return async function search(account, signal) {
    const { crm, searchedUntilMs } = account
    const all = ofAccount(account)
    if (providers[crm].readsAs === 'account') {
      return await searchWith(account, all, { searchedUntilMs, sinceMs: 0 }, signal)
    }
    // Each token finds what its user may see. Whoever cannot be asked now does not stop the others.
    const own = await database
      .select({
        id: connections.id,
        connectedSince: connections.connectedSince,
        searchedUntil: connections.searchedUntil,
        chatSince: sql<Date | null>`${chatOf(connections.userId, sql`connected_since`)}`.mapWith(
          connections.connectedSince,
        ),
      })
      .from(connections)
      .where(all)
      .orderBy(connections.connectedAt)
    // Those who got no answer lately come last.
    own.sort((a, b) => (unansweredAt.get(a.id) ?? 0) - (unansweredAt.get(b.id) ?? 0))
    let unanswered = 0
    const ends: number[] = []
    let lastError: unknown
    for (const { id, connectedSince, chatSince, searchedUntil } of own) {
      // Nobody gets what the search would find.
      if (chatSince === null) continue
      const only = and(all, eq(connections.id, id))
      const sinceMs = Math.max(connectedSince.getTime(), chatSince.getTime())
      // A time that is still to come was stored while our clock was wrong.
      const isKnown = searchedUntil !== null && searchedUntil.getTime() < Date.now()
      const from = isKnown ? searchedUntil.getTime() : connectedSince.getTime() - clockErrorMs
      try {
        const since = { searchedUntilMs: from, sinceMs, reader: id }
        const untilMs = await searchWith(account, only, since, signal)
        ends.push(untilMs)
        unansweredAt.delete(id)
        await database
          .update(connections)
          .set({ searchedUntil: new Date(untilMs) })
          .where(and(only, eq(connections.connectedSince, connectedSince)))
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error
        lastError = error
        log.warn('search for missed changes failed', { crm, connection: id, ...error.fields })
        if (!isUnanswered(error)) continue
        unansweredAt.set(id, performance.now())
        if (++unanswered === mostUnanswered) break
      }
    }
    if (ends.length === 0 && lastError !== undefined) throw lastError
    return Math.min(Date.now() - clockErrorMs, ...ends)
  }

  /**
   * Searches with the connections that `which` selects.
   * @param from until when they have searched, and before when nothing is news to them, in ms since 1970. `reader`: the
   * connection's id, if only one is selected.
   */
  async function searchWith(
    account: Account,
    which: SQL | undefined,
    from: { searchedUntilMs: number; sinceMs: number; reader?: string },
    signal: AbortSignal,
  ): Promise<number> {
    const { crm, accountId } = account
    // For a limit of days, our clock is exact enough.
    const fromMs = Math.max(from.searchedUntilMs - overlapMs, Date.now() - lookBackMs)
    const properties = await propertiesOfRules(which)
    // Without a call, only our clock is known. It may be ahead.
    if (properties.length === 0) return Date.now() - clockErrorMs

    async function connection(refused: readonly string[]) {
      await renewLease(account)
      return await workingConnection(account, which, refused)
    }
    const call = reading({ crm, connection, retryMs, signal })
    const failed: ProviderError[] = []
    /** A deal that cannot be read stops no other one, unless the calls or the token are why. */
    function leaveOut(deal: string, error: unknown): void {
      const isOfDeal = error instanceof ProviderError && error.retryAfterMs === undefined
      if (!isOfDeal || isOfToken(error)) throw error
      log.warn('deal not read', { crm, account: accountId, deal, ...error.fields })
      // Another try would end so, too.
      if (isTooLarge(error)) return
      if (failed.push(error) === mostFailed) throw error
    }

    const breathe = createBreaks()
    let missed = 0
    let beganMs = Number.POSITIVE_INFINITY
    let aheadMs = 0
    let told: ChangedDeals['deals']
    const pages = dealsChangedSince(new Date(fromMs), async (since) => {
      const found = await call((access) => providers[crm].changedDeals(access, since))
      beganMs = Math.min(beganMs, found.at.getTime())
      aheadMs = Date.now() - found.at.getTime()
      told = found.deals
      return found
    })
    const isYoung = ({ at }: { at: Date }) => at.getTime() > beganMs - graceMs
    /** What is told and stored of the deals that are read now. While it is the same, their histories show nothing new. */
    const known = new Map<string, string>()
    /**
     * The deals whose history must be read: not those whose last change is stored, or too old or too young to tell, and
     * none twice.
     */
    async function toRead(ids: readonly string[], property: DealProperty) {
      known.clear()
      if (told === undefined || property !== 'stage') return ids
      const lastOf = (dealId: string) => told?.get(dealId)?.history.at(-1)
      const last = ids.flatMap((dealId) => {
        const change = lastOf(dealId)
        return change === undefined || isYoung(change) ? [] : [{ dealId, ...change }]
      })
      const sinceMs = Math.max(fromMs, from.sinceMs - aheadMs)
      const news = await dealsWithNews(database, { crm, accountId, property, sinceMs }, last)
      for (const { dealId, newest } of news) {
        const { value, at } = lastOf(dealId) ?? {}
        known.set(dealId, [from.reader, dealId, value, at?.getTime(), newest].join('/'))
      }
      return [...known].flatMap(([dealId, key]) => (read.has(key) ? [] : [dealId]))
    }
    for await (const ids of pages) {
      for (const property of properties) {
        const batches = dealsInBatches(
          await toRead(ids, property),
          dealsAtOnce(providers[crm], property),
          (some) =>
            call(
              (access) => providers[crm].deals(access, some, property),
              some.length === 1 ? 1 : undefined,
            ),
          leaveOut,
        )
        for await (const deals of batches) {
          const events: DealEvent[] = []
          for (const [dealId, { history }] of deals) {
            for (const { value, at } of reportedChanges(property, history)) {
              await breathe()
              if (at.getTime() > fromMs && !isYoung({ at })) {
                const former = formerValue(history, { value, occurredAt: at })
                events.push(eventOf({ accountId, dealId, property, value, former }, at))
              }
            }
          }
          missed += await inbox.storeFound(crm, events, aheadMs)
          for (const [dealId, { history }] of deals) {
            const key = known.get(dealId)
            if (key !== undefined && !history.some(isYoung)) read.set(key, true)
          }
        }
      }
    }
    if (missed > 0) log('missed changes found', { crm, account: accountId, events: missed })
    const [error] = failed
    if (error !== undefined) throw error
    return beganMs
  }
}

function eventOf(of: Omit<DealEvent, 'key' | 'occurredAt'>, occurredAt: Date): DealEvent {
  const { accountId, dealId, property, value } = of
  const parts = ['search', accountId, dealId, property, value, occurredAt.getTime()]
  const key = createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
  return { ...of, key, occurredAt }
}

/** Whether there was no answer at all. Then a call with another token may wait as long. */
const isUnanswered = ({ kind, reason, retryAfterMs }: ProviderError) =>
  kind === 'unreachable' && reason === undefined && retryAfterMs === undefined
