import { type SQL, sql } from 'drizzle-orm'
import type { ActivityCounts, ActivityState } from '../../contract/features/activity.ts'
import { type Database, rowsOf } from '../database/open.ts'

export type DeliveryState = 'pending' | 'sent' | 'dead' | 'ignored'

const deliveryStates = {
  waiting: 'pending',
  sent: 'sent',
  failed: 'dead',
  skipped: 'ignored',
} as const satisfies Record<ActivityState, DeliveryState>

export const isoTime = (time: SQL) =>
  sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

export const microseconds = (time: SQL) =>
  sql`(extract(epoch from ${time}) * 1000000)::bigint::text`

/** The position of an item in the list: when the deal changed, in microseconds since 1970, and its id. */
interface Position {
  at: string
  id: string
}

/** Returns the position that a `next` of an answer means. Undefined if it is none. */
export function readPosition(next: string): Position | undefined {
  const [, at, id] = /^(\d{1,16})\.(\d{1,18})$/.exec(next) ?? []
  return at === undefined || id === undefined ? undefined : { at, id }
}

/** What a user's list contains. Undefined: everything. */
export interface ActivityFilter {
  state: ActivityState | undefined
  /** A part of the deal's name. */
  q: string | undefined
  rule: string | undefined
  /** From the first time up to the second, without it. */
  day: { start: Date; end: Date } | undefined
}

// No index finds a part of a name, or a rule in every state. So a search goes through the newest messages of the
// list until its page is full, or until it has looked at so many. The next page goes on from there
// (docs/decisions.md, 450).
const mostSearched = 1_000
/** So many are counted in each state. The index alone counts them, unless it is a search. */
const mostCounted = 1_000
const mostCountedInSearch = 250

/** The newest deliveries of a user in a state, from the index `deliveries_activity`. Looks only at the filter's day. */
export const newestIn = (
  userId: string,
  state: DeliveryState,
  { day }: Pick<ActivityFilter, 'day'>,
  { columns, isOlder = sql``, limit }: { columns: SQL; isOlder?: SQL; limit: number },
) =>
  sql`(select ${columns} from deliveries
       where user_id = ${userId} and state = ${state} ${isOlder} ${
         day === undefined
           ? sql``
           : sql`and occurred_at >= ${day.start.toISOString()}::timestamptz
                 and occurred_at < ${day.end.toISOString()}::timestamptz`
       }
       order by occurred_at desc, id desc limit ${limit})`

export const hasRule = ({ rule }: Pick<ActivityFilter, 'rule'>) =>
  rule === undefined ? sql`true` : sql`rule_id = ${rule}`

/**
 * Returns whether a deal's name has the text. The server itself compares them: PostgreSQL's `lower` knows only the
 * letters of its locale, and no database takes an accent that is a character of its own for the one of the letter.
 */
export function nameSearch({
  q,
}: Pick<ActivityFilter, 'q'>): (name: string | null | undefined) => boolean {
  if (q === undefined) return () => true
  const wanted = folded(q)
  return (name) => typeof name === 'string' && folded(name).includes(wanted)
}

/** A text in the one form of all that differ only in case, width, composition, spaces or what nobody sees. */
function folded(text: string): string {
  return (
    text
      .normalize('NFKC')
      .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
      .replace(/\s{2,}/g, ' ')
      // Upper case last: it makes SS of ß, and has only one sigma. Lower case first: only it knows ẞ.
      .toLowerCase()
      .toUpperCase()
      // The dot of a Turkish İ, which became I and a dot.
      .replaceAll('I\u0307', 'I')
  )
}

export const isSearch = ({ q, rule }: ActivityFilter) => q !== undefined || rule !== undefined

export interface ListPage {
  limit: number
  before: Position | undefined
  filter: ActivityFilter
}

/** The newest deliveries of a page, without those that only a look at the row excludes. */
export function newest(userId: string, { before, filter }: ListPage, limit: number): SQL {
  const isOlder =
    before === undefined
      ? sql``
      : sql`and (occurred_at, id) <
          (timestamptz 'epoch' + ${before.at}::bigint * interval '1 microsecond', ${before.id}::bigint)`
  const { state } = filter
  const states = state === undefined ? Object.values(deliveryStates) : [deliveryStates[state]]
  const columns = sql`id, occurred_at, deal_name, rule_id`
  const ofStates = states.map((each) => newestIn(userId, each, filter, { columns, isOlder, limit }))
  return sql`select * from (${sql.join(ofStates, sql` union all `)}) as newest
    order by occurred_at desc, id desc limit ${limit}`
}

/**
 * Searches for a page. Returns up to `limit + 1` ids, and where the search stopped if older deliveries may be left.
 */
export async function search(
  database: Database,
  userId: string,
  page: ListPage,
): Promise<{ ids: string[]; stop?: { position: string; at: string } }> {
  const { filter, limit } = page
  const [found] = await rowsOf<{
    ids: string[]
    names: Array<string | null>
    looked: number
    position: string
    at: string
  }>(
    database,
    sql`with newest as (${newest(userId, page, mostSearched)}), sorted as (
               select id::text, deal_name from newest where ${hasRule(filter)} order by occurred_at desc, id desc
             )
        select (select coalesce(json_agg(id), '[]') from sorted) as ids,
               (select coalesce(json_agg(deal_name), '[]') from sorted) as names,
               (select count(*)::int from newest) as looked,
               ${microseconds(sql`occurred_at`)} || '.' || id as position, ${isoTime(sql`occurred_at`)} as at
        from newest order by occurred_at, id limit 1`,
  )
  if (found === undefined) return { ids: [] }
  const { ids, names, looked, ...stop } = found
  const isFound = nameSearch(filter)
  return {
    ids: ids.filter((_, n) => isFound(names[n])).slice(0, limit + 1),
    ...(looked === mostSearched && { stop }),
  }
}

/** Counts what a filter finds in each state, whatever its own state is. */
export async function countActivity(
  database: Database,
  userId: string,
  filter: ActivityFilter,
): Promise<ActivityCounts> {
  const columns = isSearch(filter) ? sql`id, deal_name, rule_id` : sql`id`
  const limit = isSearch(filter) ? mostCountedInSearch : mostCounted
  const counted = Object.entries(deliveryStates).map(([shown, state]) => {
    const rows = newestIn(userId, state, filter, { columns, limit })
    return isSearch(filter)
      ? sql`select ${shown}::text as state, count(*)::int as looked,
              coalesce(json_agg(deal_name) filter (where ${hasRule(filter)}), '[]') as names
            from ${rows} as newest`
      : sql`select ${shown}::text as state, count(*)::int as looked, null::json as names
            from ${rows} as newest`
  })
  const rows = await rowsOf<{
    state: ActivityState
    looked: number
    names: Array<string | null> | null
  }>(database, sql.join(counted, sql` union all `))
  const none = { count: 0, more: false }
  const counts: ActivityCounts = { sent: none, waiting: none, failed: none, skipped: none }
  const isFound = nameSearch(filter)
  for (const { state, looked, names } of rows) {
    const count = names === null ? looked : names.filter(isFound).length
    counts[state] = { count, more: looked === limit }
  }
  return counts
}
