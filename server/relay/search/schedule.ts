// The search for changes that no webhook has brought, for example because the server was away. It searches every hour,
// and two minutes after a start that ends an absence. A search goes back to the start of the last complete one, at most
// three days. It gets the connected accounts (`crm_accounts`), and gives what it finds to the inbox, which leaves out
// what is known. The processes share the accounts: only one searches an account at a time.

import { gt, sql } from 'drizzle-orm'
import { type Background, repeatInBackground } from '../../background.ts'
import { batchRows, inBatches } from '../../database/batches.ts'
import { isOver, isTooFarAhead } from '../../database/clock.ts'
import { type Database, rowsOf } from '../../database/open.ts'
import { connections } from '../../database/schema.ts'
import { errorFields } from '../../log.ts'
import { longestWaitMs } from '../../providers/provider.ts'
import { isLasting, ProviderError } from '../../providers/provider-error.ts'
import { crmIds } from '../../providers/registry.ts'
import {
  type Account,
  clockErrorMs,
  createSearch,
  graceMs,
  lookBackMs,
  type SearchDependencies,
} from './search.ts'

/** The accounts that one process searches at the same time. Those whose CRM is away take a place for half a minute. */
export const accountsAtOnce = 8
/** Longer than one wait and one call. If the process dies, another one takes the account then. */
const leaseSeconds = 90
/** After a shorter absence, nothing is searched earlier: the CRM repeats the webhooks that failed. */
const shortAbsenceMs = 60_000

/** How long the search for missed changes waits, in milliseconds. Tests use shorter times. */
const catchUpTimes = {
  pollMs: 30_000,
  /** The pause after each search, so that thousands of accounts after a start leave time for other work. */
  pauseMs: 500,
  /** The wait until an account is searched again. */
  everyMs: 60 * 60_000,
  /** The wait after a failed call. It doubles with each try. */
  retryMs: 1_000,
  afterErrorMs: 10 * 60_000,
}

type CatchUpTimes = Readonly<typeof catchUpTimes>

export type CatchUp = ReturnType<typeof createCatchUp>

export function createCatchUp(
  dependencies: SearchDependencies,
  times: CatchUpTimes = catchUpTimes,
) {
  const { database, log } = dependencies
  const search = createSearch(dependencies, {
    retryMs: times.retryMs,
    renewLease: (account) => searchAgain(database, account, leaseSeconds * 1000),
  })
  let running: Background[] = []
  let addedAt = Number.NEGATIVE_INFINITY
  const startedAt = performance.now()
  /** A search that begins earlier leaves the end of an absence to webhooks. */
  let completeFrom = Number.NEGATIVE_INFINITY

  async function keepSchedule(): Promise<number> {
    const now = performance.now()
    const isFirst = addedAt === Number.NEGATIVE_INFINITY
    if (now - addedAt >= times.everyMs) {
      const isAfterAbsence = isFirst && (await wasAway(database, startedAt))
      await addAccounts(database, times.everyMs)
      if (isAfterAbsence) {
        completeFrom = startedAt + graceMs
        await bringForward(database)
      }
      addedAt = now
    }
    return times.pollMs
  }

  async function searchNext(signal: AbortSignal): Promise<number> {
    // A search is a sign of life. First, the schedule looks for those from before the start.
    if (addedAt === Number.NEGATIVE_INFINITY) return Math.min(times.pollMs, 100)
    const account = await leaseNext(database, times)
    if (account === undefined) return times.pollMs
    const { crm, accountId } = account
    const began = performance.now()
    try {
      const untilMs = await search(account, signal)
      const againMs = began < completeFrom ? graceMs : times.everyMs
      await searchAgain(database, account, againMs, untilMs)
    } catch (error) {
      if (signal.aborted) {
        // The next start or another process repeats it.
        await searchAgain(database, account, 0)
        return 0
      }
      const fields = error instanceof ProviderError ? error.fields : errorFields(error)
      log.warn('search for missed changes failed', { crm, account: accountId, ...fields })
      const askedMs = error instanceof ProviderError ? (error.retryAfterMs ?? 0) : 0
      const errorMs = isLasting(error) ? times.everyMs : times.afterErrorMs
      const againMs = Math.min(Math.max(errorMs, askedMs), longestWaitMs)
      await searchAgain(database, account, againMs)
    }
    return times.pauseMs
  }

  function onError(error: unknown): number {
    log.error('catch-up failed', errorFields(error))
    return times.pollMs
  }

  return {
    /** Searches the accounts, a few at a time, and each one every hour. */
    start() {
      running = [
        repeatInBackground(keepSchedule, { firstMs: 0, onError }),
        ...Array.from({ length: accountsAtOnce }, () =>
          repeatInBackground(searchNext, { firstMs: 0, onError }),
        ),
      ]
    },
    async stop() {
      await Promise.all(running.map((each) => each.stop()))
    },
  }
}

/** Adds accounts that were connected since the last call. Nothing before the connection is missing. */
async function addAccounts(database: Database, everyMs: number): Promise<void> {
  // Our clock was wrong when the user connected. Until that time, a search would find nothing for the user. The database's
  // clock says nothing of it: it may be behind.
  const now = new Date()
  await database
    .update(connections)
    .set({ connectedSince: now })
    .where(gt(connections.connectedSince, now))
  await database.execute(
    sql`insert into crm_accounts (crm, account_id, searched_until, search_at)
        select provider, account_id,
               greatest(min(connected_since) - make_interval(secs => ${clockErrorMs / 1000}),
                        now() - make_interval(secs => ${lookBackMs / 1000})),
               greatest(min(connected_since) + make_interval(secs => ${everyMs / 1000}), now())
        from ${connections}
        where provider = any(${sql.param([...crmIds])}::text[])
          and not exists (
            select from crm_accounts
            where crm = ${connections.provider} and account_id = ${connections.accountId}
          )
        group by provider, account_id
        on conflict do nothing`,
  )
}

/**
 * Whether all processes were away when this one started. What they stored last says so. This process may have stored
 * webhooks since.
 */
async function wasAway(database: Database, startedAt: number): Promise<boolean> {
  const [clock] = await rowsOf<{ ms: number }>(
    database,
    sql`select (extract(epoch from now()) * 1000)::float8 as ms`,
  )
  // Not later than the start, however long the answer took: others may have searched since.
  const startMs = (clock?.ms ?? 0) - (performance.now() - startedAt)
  const start = sql`to_timestamp(${startMs / 1000}::float8)`
  const [last] = await rowsOf<{ recent: boolean | null }>(
    database,
    sql`select greatest(
          (select max(searched_at) from crm_accounts where searched_at <= ${start}),
          (select max(received_at) from deal_events where received_at <= ${start})
        ) > ${start} - make_interval(secs => ${shortAbsenceMs / 1000}) as recent`,
  )
  return last?.recent !== true
}

/** Has all accounts searched soon: when a search no longer leaves the end of the absence to webhooks. */
async function bringForward(database: Database): Promise<void> {
  const soon = sql`now() + make_interval(secs => ${graceMs / 1000})`
  await inBatches(async () => {
    const rows = await rowsOf(
      database,
      sql`update crm_accounts set search_at = ${soon}
          where (crm, account_id) in (
            select crm, account_id from crm_accounts where search_at > ${soon}
            limit ${batchRows} for update skip locked
          )
          returning 1`,
    )
    return rows.length
  })
}

/**
 * Takes the account that has been due for the longest time. A time until which it has been searched, but which is still
 * to come, is from our clock while that was wrong (search.ts). No rule needed a search then.
 */
async function leaseNext(
  database: Database,
  { everyMs }: CatchUpTimes,
): Promise<Account | undefined> {
  const longestMs = Math.max(everyMs, longestWaitMs)
  const [account] = await rowsOf<Account>(
    database,
    sql`update crm_accounts
        set search_at = now() + make_interval(secs => ${leaseSeconds})
        where (crm, account_id) in (
          select crm, account_id from crm_accounts
          where ${isOver(sql`search_at`, longestMs)}
          order by search_at limit 1 for update skip locked
        )
        returning crm, account_id as "accountId",
                  (extract(epoch from case
                    when not (${isTooFarAhead(sql`searched_until`, 0)}) then searched_until
                    else now() - make_interval(secs => ${clockErrorMs / 1000})
                  end) * 1000)::float8 as "searchedUntilMs"`,
  )
  return account
}

/** Sets when to search an account again. @param untilMs the time until which a complete search has gone. */
async function searchAgain(
  database: Database,
  { crm, accountId }: Account,
  afterMs: number,
  untilMs?: number,
): Promise<void> {
  const searched =
    untilMs === undefined
      ? sql``
      : sql`searched_until = to_timestamp(${untilMs / 1000}), searched_at = now(),`
  await database.execute(
    sql`update crm_accounts
        set ${searched} search_at = now() + make_interval(secs => ${afterMs / 1000})
        where crm = ${crm} and account_id = ${accountId}`,
  )
}
