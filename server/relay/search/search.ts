// Gets an account, and until when it has been searched. Finds the changes since then of the properties that a ticked rule
// is about, and gives them to the inbox, which leaves out those that a webhook brought. Returns until when the account is
// searched now. If a call fails, it throws, and the next search goes back as far: a deal that this one did not read may
// also have older changes than those that it read.

import { createHash } from 'node:crypto'
import { and, eq, isNull, notInArray } from 'drizzle-orm'
import { connections, rules } from '../../database/schema.ts'
import type { Log } from '../../log.ts'
import type { AccessDependencies, CrmConnection } from '../../people/access-token.ts'
import type { DealEvent } from '../../providers/deal.ts'
import type { CrmAccess } from '../../providers/provider.ts'
import type { CrmId, DealProperty } from '../../providers/registry.ts'
import { propertiesOf } from '../decide/rules.ts'
import {
  createBreaks,
  createSpareCalls,
  dealsChangedSince,
  dealsInBatches,
  reportedChanges,
} from '../past-changes.ts'
import type { Inbox } from '../receive/inbox.ts'

/** HubSpot repeats webhooks for about a day. Whoever was away for longer wants no older news. */
export const lookBackMs = 3 * 24 * 60 * 60_000
/** A search finds a change only after some moments. So searches overlap. */
const overlapMs = 10 * 60_000
/** The webhook of a younger change is probably on its way. */
export const graceMs = 2 * 60_000
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

  const ofAccount = ({ crm, accountId }: Account) =>
    and(
      eq(connections.provider, crm),
      eq(connections.accountId, accountId),
      isNull(connections.brokenSince),
    )

  async function workingConnection(
    account: Account,
    refused: readonly string[],
  ): Promise<CrmConnection | undefined> {
    const [row] = await database
      .select()
      .from(connections)
      .where(and(ofAccount(account), notInArray(connections.id, [...refused])))
      .orderBy(connections.connectedAt)
      .limit(1)
    return row && { ...row, provider: account.crm }
  }

  async function propertiesOfRules(account: Account): Promise<DealProperty[]> {
    const rows = await database
      .select({ ruleIds: rules.ruleIds })
      .from(connections)
      .innerJoin(rules, eq(rules.userId, connections.userId))
      .where(ofAccount(account))
    return propertiesOf(rows.flatMap(({ ruleIds }) => ruleIds))
  }

  return async function search(account, signal) {
    const { crm, accountId, searchedUntilMs } = account
    // For a limit of days, our clock is exact enough.
    const fromMs = Math.max(searchedUntilMs - overlapMs, Date.now() - lookBackMs)
    const properties = await propertiesOfRules(account)
    // Without a call, only our clock is known. It may be ahead.
    if (properties.length === 0) return Date.now() - clockErrorMs

    // While the CRM is away, each account gives its place to the next one after one call.
    let hasAnswered = false
    /** Makes a call with a connection of the account that works. @throws ProviderError */
    async function call<Result>(make: (access: CrmAccess) => Promise<Result>): Promise<Result> {
      async function connection(refused: readonly string[]) {
        await renewLease(account)
        return await workingConnection(account, refused)
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
    const pages = dealsChangedSince(new Date(fromMs), async (since) => {
      const found = await call((access) => providers[crm].changedDeals(access, since))
      beganMs = Math.min(beganMs, found.at.getTime())
      aheadMs = Date.now() - found.at.getTime()
      return found
    })
    for await (const ids of pages) {
      for (const property of properties) {
        const batches = dealsInBatches(
          ids,
          providers[crm].dealsAtOnce,
          (some) => call((access) => providers[crm].deals(access, some, property)),
          (deal) => log.warn('deal too large', { crm, account: accountId, deal }),
        )
        for await (const deals of batches) {
          const events: DealEvent[] = []
          for (const [dealId, { history }] of deals) {
            for (const { value, at } of reportedChanges(property, history)) {
              await breathe()
              if (at.getTime() > fromMs && at.getTime() <= beganMs - graceMs) {
                events.push(eventOf({ accountId, dealId, property, value }, at))
              }
            }
          }
          missed += await inbox.storeFound(crm, events, aheadMs)
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
