import { createHash } from 'node:crypto'
import { and, eq, isNull, notInArray, sql } from 'drizzle-orm'
import { type Background, repeatInBackground } from '../../background.ts'
import { type Database, rowsOf } from '../../database/open.ts'
import { connections, rules } from '../../database/schema.ts'
import { errorFields, type Log } from '../../log.ts'
import type { CrmConnection } from '../../people/access-token.ts'
import { isOfConfigured } from '../../people/connections.ts'
import type { Vault } from '../../people/vault.ts'
import {
  type CrmAccess,
  type DealEvent,
  longestWaitMs,
  ProviderError,
  type Providers,
} from '../../providers/provider.ts'
import { type CrmId, crmIds, type DealProperty } from '../../providers/registry.ts'
import { dealRules } from '../decide/rules.ts'
import type { Inbox } from '../receive/inbox.ts'
import {
  createBreaks,
  createSpareCalls,
  dealsChangedSince,
  dealsInBatches,
  reportedChanges,
} from './past-changes.ts'

/** HubSpot repeats webhooks for about a day. Whoever was away for longer wants no older news. */
const lookBackMs = 3 * 24 * 60 * 60_000
/** A search finds a change only after some moments. So searches overlap. */
const overlapMs = 10 * 60_000
/** The webhook of a younger change is probably on its way. */
const graceMs = 2 * 60_000
/** The most that our clock may be ahead of the CRM's clock when a user connects an account. */
const clockErrorMs = 60 * 60_000
/** The accounts that one process searches at the same time. */
const accountsAtOnce = 3
/** Longer than one wait and one call. If the process dies, another one takes the account then. */
const leaseSeconds = 90

/** How long the search for missed changes waits, in milliseconds. Tests use shorter times. */
export interface CatchUpTimes {
  pollMs: number
  /** The pause after each search, so that thousands of accounts after a start leave time for other work. */
  pauseMs: number
  /** The wait until an account is searched again. */
  everyMs: number
  /** The wait after a refused webhook. Its change is then older than `graceMs`. */
  soonMs: number
  /** Anyone can send what is refused. So refused webhooks start no search of an account before this time. */
  soonAgainMs: number
  /** The wait after a failed call. It doubles with each try. */
  retryMs: number
  afterErrorMs: number
}

const catchUpTimes: CatchUpTimes = {
  pollMs: 30_000,
  pauseMs: 500,
  everyMs: 60 * 60_000,
  soonMs: 3 * 60_000,
  soonAgainMs: 15 * 60_000,
  retryMs: 1_000,
  afterErrorMs: 10 * 60_000,
}

export interface CatchUp {
  /** Searches all accounts, a few at a time, and each one every hour from then on. */
  start(): void
  /** Webhooks were refused, so changes may be missing. Searches all accounts soon. */
  searchSoon(): void
  stop(): Promise<void>
}

interface Account {
  crm: CrmId
  accountId: string
  /** By the clock of the CRM. */
  searchedUntilMs: number
}

/** Creates the search for changes that no webhook has brought. */
export function createCatchUp(
  {
    database,
    vault,
    providers,
    inbox,
    log,
  }: { database: Database; vault: Vault; providers: Providers; inbox: Inbox; log: Log },
  times: CatchUpTimes = catchUpTimes,
): CatchUp {
  const spareCall = createSpareCalls({ database, vault, providers, log })
  let running: Background[] = []
  let refusedAt = Number.NEGATIVE_INFINITY
  let broughtForwardAt = Number.NEGATIVE_INFINITY
  let addedAt = Number.NEGATIVE_INFINITY

  /** Keeps the table `crm_accounts`, which says when to search each account. */
  async function keepSchedule(): Promise<number> {
    const now = performance.now()
    const isFirst = addedAt === Number.NEGATIVE_INFINITY
    if (now - addedAt >= times.everyMs) {
      await addAccounts(database, providers, times.everyMs)
      if (isFirst) await makeAllDue(database)
      addedAt = now
    }
    if (refusedAt > broughtForwardAt) {
      await addAccounts(database, providers, times.everyMs)
      await bringForward(database, times)
      broughtForwardAt = now
    }
    return times.pollMs
  }

  async function searchNext(signal: AbortSignal): Promise<number> {
    const account = await leaseNext(database)
    if (account === undefined) return times.pollMs
    const { crm, accountId } = account
    const startedAt = performance.now()
    try {
      const untilMs = await search(account, signal)
      // A webhook that was refused meanwhile may have brought a change that this search left out.
      const againMs = refusedAt > startedAt ? times.soonAgainMs : times.everyMs
      await recordSearched(database, account, untilMs, againMs)
    } catch (error) {
      if (signal.aborted) {
        // The next start or another process repeats it.
        await searchAgain(database, account, 0)
        return 0
      }
      const fields =
        error instanceof ProviderError
          ? { stage: error.stage, kind: error.kind, reason: error.reason }
          : errorFields(error)
      log('search for missed changes failed', { crm, account: accountId, ...fields })
      const askedMs = error instanceof ProviderError ? (error.retryAfterMs ?? 0) : 0
      const againMs = Math.min(Math.max(times.afterErrorMs, askedMs), longestWaitMs)
      await searchAgain(database, account, againMs)
    }
    return times.pauseMs
  }

  /**
   * Stores the changes since the last search that no webhook has brought. Only a complete search counts:
   * a deal that it did not read may also have older changes than those that it read.
   * @returns the start of the search by the CRM's clock, or by our clock if no rule needs a search.
   */
  async function search(account: Account, signal: AbortSignal): Promise<number> {
    const { crm, accountId, searchedUntilMs } = account
    // For a limit of days, our clock is exact enough.
    const fromMs = Math.max(searchedUntilMs - overlapMs, Date.now() - lookBackMs)
    const properties = await propertiesOfRules(account)
    // Without a call, only our clock is known. It may be ahead.
    if (properties.length === 0) return Date.now() - clockErrorMs
    const breathe = createBreaks()
    let missed = 0
    let beganMs = Number.POSITIVE_INFINITY
    let aheadMs = 0
    const pages = dealsChangedSince(new Date(fromMs), async (since) => {
      const found = await call(account, signal, (access) =>
        providers[crm].changedDeals(access, since),
      )
      beganMs = Math.min(beganMs, found.at.getTime())
      aheadMs = Date.now() - found.at.getTime()
      return found
    })
    for await (const ids of pages) {
      for (const property of properties) {
        const batches = dealsInBatches(
          ids,
          providers[crm].dealsAtOnce,
          (some) => call(account, signal, (access) => providers[crm].deals(access, some, property)),
          (deal) => log('deal too large', { crm, account: accountId, deal }),
        )
        for await (const deals of batches) {
          const events: DealEvent[] = []
          for (const [dealId, { formerIds: formerDealIds, history }] of deals) {
            for (const { value, at } of reportedChanges(property, history)) {
              await breathe()
              if (at.getTime() > fromMs && at.getTime() <= beganMs - graceMs) {
                events.push(eventOf({ accountId, dealId, formerDealIds, property, value }, at))
              }
            }
          }
          missed += await inbox.storeMissed(crm, events, aheadMs)
        }
      }
    }
    if (missed > 0) log('missed changes found', { crm, account: accountId, events: missed })
    return beganMs
  }

  /** Makes a call with a connection of the account that works. @throws ProviderError */
  function call<Result>(
    account: Account,
    signal: AbortSignal,
    make: (access: CrmAccess) => Promise<Result>,
  ): Promise<Result> {
    const { crm } = account
    async function connection(refused: readonly string[]) {
      await renewLease(database, account)
      return await workingConnection(account, refused)
    }
    return spareCall({ crm, connection, retryMs: times.retryMs, signal }, make)
  }

  const ofAccount = ({ crm, accountId }: Pick<Account, 'crm' | 'accountId'>) =>
    and(
      eq(connections.provider, crm),
      eq(connections.accountId, accountId),
      isNull(connections.brokenSince),
      isOfConfigured(providers, connections),
    )

  async function workingConnection(
    account: Pick<Account, 'crm' | 'accountId'>,
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

  /** The properties that a ticked rule of a connected user is about. */
  async function propertiesOfRules(account: Account): Promise<DealProperty[]> {
    const rows = await database
      .select({ ruleIds: rules.ruleIds })
      .from(connections)
      .innerJoin(rules, eq(rules.userId, connections.userId))
      .where(ofAccount(account))
    const ticked = new Set(rows.flatMap(({ ruleIds }) => ruleIds))
    const needed = Object.entries(dealRules).filter(([id]) => ticked.has(id))
    return [...new Set(needed.map(([, { property }]) => property))]
  }

  function onError(error: unknown): number {
    log('catch-up failed', errorFields(error))
    return times.pollMs
  }

  return {
    start() {
      running = [
        repeatInBackground(keepSchedule, { firstMs: 0, onError }),
        ...Array.from({ length: accountsAtOnce }, () =>
          repeatInBackground(searchNext, { firstMs: 0, onError }),
        ),
      ]
    },
    searchSoon() {
      refusedAt = performance.now()
    },
    async stop() {
      await Promise.all(running.map((each) => each.stop()))
    },
  }
}

/** A change of a property as an event. */
function eventOf(of: Omit<DealEvent, 'key' | 'occurredAt'>, occurredAt: Date): DealEvent {
  const { accountId, dealId, property, value } = of
  const parts = ['search', accountId, dealId, property, value, occurredAt.getTime()]
  const key = createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
  return { ...of, key, occurredAt }
}

/** Adds accounts that were connected since the last call. Nothing before the connection is missing. */
async function addAccounts(
  database: Database,
  providers: Providers,
  everyMs: number,
): Promise<void> {
  await database.execute(
    sql`insert into crm_accounts (crm, account_id, searched_until, search_at)
        select provider, account_id,
               greatest(min(connected_since) - make_interval(secs => ${clockErrorMs / 1000}),
                        now() - make_interval(secs => ${lookBackMs / 1000})),
               greatest(min(connected_since) + make_interval(secs => ${everyMs / 1000}), now())
        from ${connections}
        where provider = any(${sql.param([...crmIds])}::text[])
          and ${isOfConfigured(providers, connections)}
          and not exists (
            select from crm_accounts
            where crm = ${connections.provider} and account_id = ${connections.accountId}
          )
        group by provider, account_id
        on conflict do nothing`,
  )
}

/** Makes all accounts due, except those that another process searches now or that are due soon. */
async function makeAllDue(database: Database): Promise<void> {
  await database.execute(
    sql`update crm_accounts set search_at = now()
        where search_at > now() + make_interval(secs => ${leaseSeconds})`,
  )
}

/** An account that is due before `soonAgainMs` keeps its time: it may have been brought forward before. */
async function bringForward(
  database: Database,
  { everyMs, soonMs, soonAgainMs }: CatchUpTimes,
): Promise<void> {
  // The last search set `search_at` to `everyMs` later.
  await database.execute(
    sql`update crm_accounts
        set search_at = greatest(
          now() + make_interval(secs => ${soonMs / 1000}),
          search_at - make_interval(secs => ${(everyMs - soonAgainMs) / 1000})
        )
        where search_at > now() + make_interval(secs => ${Math.max(soonMs, soonAgainMs) / 1000})`,
  )
}

/** Takes the account that has been due for the longest time. */
async function leaseNext(database: Database): Promise<Account | undefined> {
  const [account] = await rowsOf<Account>(
    database,
    sql`update crm_accounts
        set search_at = now() + make_interval(secs => ${leaseSeconds})
        where (crm, account_id) in (
          select crm, account_id from crm_accounts
          where search_at <= now() order by search_at limit 1 for update skip locked
        )
        returning crm, account_id as "accountId",
                  (extract(epoch from searched_until) * 1000)::float8 as "searchedUntilMs"`,
  )
  return account
}

const renewLease = (database: Database, account: Pick<Account, 'crm' | 'accountId'>) =>
  searchAgain(database, account, leaseSeconds * 1000)

async function searchAgain(
  database: Database,
  { crm, accountId }: Pick<Account, 'crm' | 'accountId'>,
  afterMs: number,
): Promise<void> {
  await database.execute(
    sql`update crm_accounts set search_at = now() + make_interval(secs => ${afterMs / 1000})
        where crm = ${crm} and account_id = ${accountId}`,
  )
}

async function recordSearched(
  database: Database,
  { crm, accountId }: Account,
  untilMs: number,
  againMs: number,
): Promise<void> {
  await database.execute(
    sql`update crm_accounts
        set searched_until = to_timestamp(${untilMs / 1000}),
            search_at = now() + make_interval(secs => ${againMs / 1000})
        where crm = ${crm} and account_id = ${accountId}`,
  )
}
