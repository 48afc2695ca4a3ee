import { type SQL, sql } from 'drizzle-orm'
import type { Summary } from '../../contract/features/activity.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import { type Database, rowsOf } from '../database/open.ts'
import { isoTime } from './find.ts'

/** An open dashboard counts every 15 seconds. After a bulk edit, far more may wait. */
const mostWaiting = 10_000

/** A day of the summary: its date in the user's time zone, and when it starts. */
export interface Day {
  date: string
  start: Date
}

export async function readSummary(
  database: Database,
  userId: string,
  days: readonly Day[],
): Promise<Omit<Summary, 'failedWhileBroken' | 'connectFirst'>> {
  const starts = days.map(({ start }) => start.toISOString())
  const inDays = sql`
    unnest(${sql.param(starts)}::timestamptz[], ${sql.param([...starts.slice(1), 'infinity'])}::timestamptz[])
    with ordinality as days(start, stop, day)`
  // One range of the index `deliveries_counted` for each day, rule and state: grouping the rows would take
  // longer. The list of states is the condition of the index.
  const ofRule = (isOfRule: SQL, state: 'sent' | 'dead') => sql`
    from deliveries where user_id = ${userId} and ${isOfRule} and state = ${state}
      and state in ('sent', 'dead') and occurred_at >= start and occurred_at < stop`
  const counted = (inRules: SQL, isOfRule: SQL) => sql`
    select day::int as day, rule, sent, failed,
           case when sent > 0 then (
             select ${isoTime(sql`finished_at`)} ${ofRule(isOfRule, 'sent')}
             order by occurred_at desc limit 1
           ) end as last
    from ${inDays} cross join ${inRules}
    cross join lateral (select count(*)::int as sent ${ofRule(isOfRule, 'sent')}) as one
    cross join lateral (select count(*)::int as failed ${ofRule(isOfRule, 'dead')}) as other
    where sent + failed > 0`
  const [counts, [waiting]] = await Promise.all([
    rowsOf<{
      day: number
      rule: string | null
      sent: number
      failed: number
      last: string | null
    }>(
      database,
      sql`${counted(
        sql`unnest(${sql.param([...availableRuleIds])}::text[]) as rules(rule)`,
        sql`rule_id = rule`,
      )} union all ${
        // Test messages, and messages that failed before the relay knew the rule.
        counted(sql`(select null::text as rule) as none`, sql`rule_id is null`)
      }`,
    ),
    rowsOf<{ count: number }>(
      database,
      sql`select count(*)::int as count from (
            select from deliveries where user_id = ${userId} and state = 'pending' limit ${mostWaiting}
          ) as waiting`,
    ),
  ])

  const summary: Awaited<ReturnType<typeof readSummary>> = {
    days: days.length,
    rules: {},
    daily: days.map(({ date }) => ({ date, sent: 0, failed: 0 })),
    waiting: waiting?.count ?? 0,
  }
  // A rule's id is stored text, and `{}` has properties such as `constructor`.
  const rules = new Map<string, Summary['rules'][string]>()
  for (const { day, rule, sent, failed, last } of counts) {
    const daily = summary.daily[day - 1]
    if (daily !== undefined) {
      daily.sent += sent
      daily.failed += failed
    }
    if (rule === null) continue
    const ofRule = rules.get(rule) ?? { sent: 0, failed: 0, lastSentAt: null }
    ofRule.sent += sent
    ofRule.failed += failed
    if (last !== null && last > (ofRule.lastSentAt ?? '')) ofRule.lastSentAt = last
    rules.set(rule, ofRule)
  }
  return { ...summary, rules: Object.fromEntries(rules) }
}
