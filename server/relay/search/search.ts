// Gets an account, and until when it has been searched. Finds the changes since then of the properties that a ticked rule
// is about, and gives them to the inbox, which leaves out those that a webhook brought. Where each token sees other deals,
// each user's token searches. Returns until when the account is searched now. If a call fails, it throws, and the next
// search goes back as far: a deal that this one did not read may also have older changes than those that it read.

import { createHash } from 'node:crypto'
import { and, eq, isNull, notInArray, type SQL, sql } from 'drizzle-orm'
import { createCache } from '../../cache.ts'
import { connections, rules } from '../../database/schema.ts'
import type { Log } from '../../log.ts'
import type { AccessDependencies, CrmConnection } from '../../people/access-token.ts'
import { chatOf } from '../../people/routes.ts'
import type { ChangedDeals, DealEvent } from '../../providers/deal.ts'
import type { CrmAccess } from '../../providers/provider.ts'
import { ProviderError } from '../../providers/provider-error.ts'
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
/** Where each token sees other deals: after so many users for whom the CRM did not answer, the others of an account wait. */
const mostUnanswered = 3
/** In some 5 MB. */
const mostRead = 20_000
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
  const spareCall = createSpareCalls({ database, vault, providers })
  /** From when the history of a deal with this last change was read, in ms since 1970. To read it again shows nothing new. */
  const readFrom = createCache<number>(mostRead)

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
      // Those for whom the CRM does not answer come last.
      .orderBy(sql`${connections.searchedUntil} desc nulls last`, connections.connectedAt)
    let unanswered = 0
    const ends: number[] = []
    let lastError: unknown
    for (const { id, connectedSince, chatSince, searchedUntil } of own) {
      // Nobody gets what the search would find.
      if (chatSince === null) continue
      const only = and(all, eq(connections.id, id))
      const sinceMs = Math.max(connectedSince.getTime(), chatSince.getTime())
      const isKnown = searchedUntil !== null && searchedUntil.getTime() < Date.now()
      const from = isKnown ? searchedUntil.getTime() : connectedSince.getTime() - clockErrorMs
      try {
        const untilMs = await searchWith(account, only, { searchedUntilMs: from, sinceMs }, signal)
        ends.push(untilMs)
        await database
          .update(connections)
          .set({ searchedUntil: new Date(untilMs) })
          .where(and(only, eq(connections.connectedSince, connectedSince)))
      } catch (error) {
        if (!(error instanceof ProviderError)) throw error
        lastError = error
        log.warn('search for missed changes failed', { crm, connection: id, ...error.fields })
        if (isUnanswered(error) && ++unanswered === mostUnanswered) break
      }
    }
    if (ends.length === 0 && lastError !== undefined) throw lastError
    return Math.min(Date.now() - clockErrorMs, ...ends)
  }

  /**
   * Searches with the connections that `which` selects.
   * @param from until when they have searched, and before when nothing is news to them, in ms since 1970.
   */
  async function searchWith(
    account: Account,
    which: SQL | undefined,
    from: { searchedUntilMs: number; sinceMs: number },
    signal: AbortSignal,
  ): Promise<number> {
    const { crm, accountId } = account
    // For a limit of days, our clock is exact enough.
    const fromMs = Math.max(from.searchedUntilMs - overlapMs, Date.now() - lookBackMs)
    const properties = await propertiesOfRules(which)
    // Without a call, only our clock is known. It may be ahead.
    if (properties.length === 0) return Date.now() - clockErrorMs

    // While the CRM is away, each account soon gives its place to the next one.
    let hasAnswered = false
    /** Makes a call with a connection that works. @throws ProviderError */
    async function call<Result>(make: (access: CrmAccess) => Promise<Result>): Promise<Result> {
      async function connection(refused: readonly string[]) {
        await renewLease(account)
        return await workingConnection(account, which, refused)
      }
      const tries = hasAnswered ? {} : { mostUnanswered: 1 }
      const answer = await spareCall({ crm, connection, retryMs, signal, ...tries }, make)
      hasAnswered = true
      return answer
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
    const lastChangeOf = (dealId: string) => told?.get(dealId)?.history.at(-1)
    const readKey = (dealId: string, { value, at }: { value: string; at: Date }) =>
      [accountId, dealId, value, at.getTime()].join('/')
    /**
     * The deals whose history must be read: not those whose last change is stored, or too old or too young to tell, and
     * none twice.
     */
    async function toRead(ids: readonly string[], property: DealProperty) {
      if (told === undefined || property !== 'stage') return ids
      const last = ids.flatMap((dealId) => {
        const change = lastChangeOf(dealId)
        const isYoung = change !== undefined && change.at.getTime() > beganMs - graceMs
        if (change === undefined || isYoung) return []
        const isRead = (readFrom.get(readKey(dealId, change)) ?? Number.POSITIVE_INFINITY) <= fromMs
        return isRead ? [] : [{ dealId, ...change }]
      })
      const sinceMs = Math.max(fromMs, from.sinceMs - aheadMs)
      return await dealsWithNews(database, { crm, accountId, property, sinceMs }, last)
    }
    for await (const ids of pages) {
      for (const property of properties) {
        const batches = dealsInBatches(
          await toRead(ids, property),
          dealsAtOnce(providers[crm], property),
          (some) => call((access) => providers[crm].deals(access, some, property)),
          (deal) => log.warn('deal too large', { crm, account: accountId, deal }),
        )
        for await (const deals of batches) {
          const events: DealEvent[] = []
          for (const [dealId, { history }] of deals) {
            for (const { value, at } of reportedChanges(property, history)) {
              await breathe()
              if (at.getTime() > fromMs && at.getTime() <= beganMs - graceMs) {
                const former = formerValue(history, { value, occurredAt: at })
                events.push(eventOf({ accountId, dealId, property, value, former }, at))
              }
            }
          }
          missed += await inbox.storeFound(crm, events, aheadMs)
          for (const dealId of deals.keys()) {
            const change = lastChangeOf(dealId)
            if (change !== undefined) readFrom.set(readKey(dealId, change), fromMs)
          }
        }
      }
    }
    if (missed > 0) log('missed changes found', { crm, account: accountId, events: missed })
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
