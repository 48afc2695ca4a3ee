import { type SQL, sql } from 'drizzle-orm'
import type { CrmId } from '../providers/registry.ts'
import { type Database, rowsOf } from './open.ts'
import { crmBudgets } from './schema.ts'

interface Spending {
  tokens: number
  /** The share of the day that must be left afterwards. Without it, the tokens are counted in any case. */
  keep?: number | undefined
  /** The budget of a day, until the CRM says another one. */
  most: number
  /** What the CRM says: the budget of a day, and what all programs of the account have left of it. */
  heard?: { most?: number | undefined; left?: number | undefined } | undefined
}

interface Spent {
  /** False: too little is left, and nothing was counted. */
  counted: boolean
  most: number
  spent: number
  /** What the CRM last said is left today, without what was spent since; null if it has not said it. */
  remaining: number | null
  untilMidnightMs: number
}

/** Whether less than this share is left of the day of a connection's account. */
export const isShortDay = (share: number): SQL<boolean> => sql`exists (
  select from crm_budgets as budget
  where budget.crm = connections.provider and budget.account_id = connections.account_id
    and day = (now() at time zone 'utc')::date
    and coalesce(remaining, most - spent) < most * ${share}::float8)`

/** Counts what all processes spend of an account's day, in one statement for each call. */
export type Spend = (crm: CrmId, accountId: string, spending: Spending) => Promise<Spent>

/**
 * Creates the function that counts on a database. A day is one of UTC.
 * @param time is the clock of the database. now() would be too early: a statement may wait for the row after its
 * transaction has begun.
 */
export function createBudgets(
  database: Database,
  time: () => SQL = () => sql`clock_timestamp()`,
): Spend {
  const spend: Spend = async (crm, accountId, spending) => {
    const { tokens, keep, most, heard = {} } = spending
    const heardMost = sql`${heard.most ?? null}::int`
    const heardLeft = sql`${heard.left ?? null}::int`
    // The time is read once: at midnight, one column must not see another day than the other.
    const clock = sql`(select ${time()} at time zone 'utc' as now) as clock`
    const row = sql`select
        now::date as day,
        case when budget.day = now::date then budget.spent else 0 end + ${tokens}::int as spent,
        coalesce(${heardMost}, budget.most) as most,
        coalesce(${heardLeft}, case when budget.day = now::date then budget.remaining end) - ${tokens}::int as remaining
      from ${clock}`
    const leaves =
      keep === undefined
        ? sql``
        : sql`where (select coalesce(remaining, most - spent) >= most * ${keep}::float8 from (${row}) as next)`
    const [spent] = await rowsOf<Spent>(
      database,
      sql`with counted as (
            insert into ${crmBudgets} as budget (crm, account_id, day, spent, most, remaining)
            select ${crm}, ${accountId}, now::date, ${tokens}::int,
                   coalesce(${heardMost}, ${most}::int), ${heardLeft} - ${tokens}::int
            from ${clock}
            on conflict (crm, account_id) do update
            set (day, spent, most, remaining) = (${row}) ${leaves}
            returning true as counted, most, spent, remaining
          )
          select known.*, extract(
            epoch from date_trunc('day', now) + interval '1 day' - now
          )::float8 * 1000 as "untilMidnightMs"
          from (
            select * from counted
            union all
            select false, most, spent, remaining from ${crmBudgets}
            where crm = ${crm} and account_id = ${accountId} and not exists (select from counted)
          ) as known cross join ${clock}`,
    )
    // A row that another process added meanwhile is not seen until the next statement.
    return spent ?? (await spend(crm, accountId, spending))
  }
  return spend
}
