// `activity/` returns what became of deliveries, to their user or to the operator, and can make failed ones pending again.
// The relay does the rest. Only the preview calls a service. A user never sees another one's.

import { type SQL, sql } from 'drizzle-orm'
import type { Activity, ActivityItem, ActivityState } from '../../contract/features/activity.ts'
import { pausedUntil } from '../database/clock.ts'
import { type Database, rowsOf } from '../database/open.ts'
import { testProperty } from '../database/schema.ts'
import { channelOf, chatOf } from '../people/routes.ts'
import { longestChannelMs, type Providers } from '../providers/provider.ts'
import { type ChatId, type CrmId, registry } from '../providers/registry.ts'
import { putOffUntil } from '../relay/pick/delivery.ts'
import {
  type DeliveryState,
  isoTime,
  isSearch,
  type ListPage,
  microseconds,
  newest,
  search,
} from './find.ts'
import { doubtOf, reasonInWords } from './reasons.ts'

interface Dependencies {
  database: Database
  providers: Providers
}

const shownStates = {
  pending: 'waiting',
  sent: 'sent',
  dead: 'failed',
  ignored: 'skipped',
} as const satisfies Record<DeliveryState, ActivityState>

/** A channel that rests for longer than between two messages was asked to. */
const pauseFrom = sql`now() + make_interval(secs => ${longestChannelMs / 1000 + 1})`

// The next three are about rows of `deliveries` as `delivery`, and of `channels` as `channel`.
const paused = pausedUntil(sql`channel`)
const nextTry = sql`greatest(${putOffUntil(sql`delivery`)}, ${paused})`
/** Whether the chat asked for a pause that lasts longer than anything else that the delivery waits for. */
export const isPaused = sql`(${paused} > ${pauseFrom} and ${paused} >= ${nextTry})`
/** When the delivery is tried next, in ISO 8601. Null if that is at once. */
export const nextTryAt = sql`case when ${nextTry} > ${pauseFrom} then ${isoTime(nextTry)} end`

export async function readActivity(
  dependencies: Dependencies,
  userId: string,
  page: ListPage,
): Promise<Activity> {
  const searched = isSearch(page.filter)
    ? await search(dependencies.database, userId, page)
    : undefined
  const { rows, items } = await readRows(
    dependencies,
    userId,
    searched === undefined
      ? sql`select id from (${newest(userId, page, page.limit + 1)}) as newest`
      : sql`select unnest(${sql.param(searched.ids)}::bigint[]) as id`,
  )
  const last = rows.length > page.limit ? rows[page.limit - 1] : undefined
  if (last !== undefined) {
    return { items: items.slice(0, page.limit), next: `${last.at_microseconds}.${last.id}` }
  }
  const { stop } = searched ?? {}
  return stop === undefined
    ? { items, next: null }
    : { items, next: stop.position, searchedTo: stop.at }
}

export const isItemId = (text: string) => /^\d{1,18}$/.test(text)

/** Reads the items with these ids that a user has, the newest first. */
export async function readItems(
  dependencies: Dependencies,
  userId: string,
  ids: readonly string[],
): Promise<ActivityItem[]> {
  const own = sql`
    select id from deliveries where id = any(${sql.param(ids)}::bigint[]) and user_id = ${userId}`
  return (await readRows(dependencies, userId, own)).items
}

/** Reads the deliveries whose ids a query selects, the newest first. */
async function readRows({ database, providers }: Dependencies, userId: string, ids: SQL) {
  const rows = await rowsOf<ActivityRow>(
    database,
    sql`select delivery.id::text as id, delivery.state, delivery.attempts as tries,
               delivery.rule_id as rule, delivery.deal_name, delivery.deal_url, delivery.from_label as from,
               delivery.to_label as to, delivery.reason, delivery.channel, channel.name as channel_name,
               ${isPaused} as is_paused, ${nextTryAt} as next_try_at,
               ${isoTime(sql`delivery.occurred_at`)} as at,
               ${microseconds(sql`delivery.occurred_at`)} as at_microseconds,
               event.crm, event.account_id, crm.account_name as crm_account_name,
               crm.provider is not null and crm.broken_since is null as crm_works,
               chat.provider is not null and chat.broken_since is null as chat_works, event.deal_id, event.property = ${testProperty} as is_test,
               chat.provider as chat, chat.account_id as chat_account, chat.channel_id as chat_channel,
               chat.channel_name as chat_channel_name
        from (${ids}) as page
        join deliveries as delivery on delivery.id = page.id
        join deal_events as event on event.id = delivery.event_id
        left join channels as channel on channel.id = delivery.channel
        left join connections as crm on crm.user_id = ${userId}::uuid
          and crm.provider = event.crm and crm.account_id = event.account_id
        left join ${chatOf(
          sql`${userId}::uuid`,
          sql`provider, account_id, channel_id, channel_name, broken_since`,
        )} as chat on true
        order by delivery.occurred_at desc, delivery.id desc`,
  )
  return { rows, items: rows.map((row) => itemOf(row, providers)) }
}

interface ActivityRow {
  id: string
  state: DeliveryState
  tries: number
  rule: string | null
  deal_name: string | null
  deal_url: string | null
  from: string | null
  to: string | null
  reason: string | null
  /** The id of a row of `channels`, and its name. */
  channel: string
  channel_name: string | null
  is_paused: boolean | null
  next_try_at: string | null
  at: string
  at_microseconds: string
  crm: CrmId
  account_id: string
  crm_account_name: string | null
  crm_works: boolean
  chat_works: boolean
  deal_id: string
  is_test: boolean
  /** The chat that gets the user's messages now. Null if none is connected. */
  chat: ChatId | null
  chat_account: string | null
  chat_channel: string | null
  chat_channel_name: string | null
}

function itemOf(row: ActivityRow, providers: Providers): ActivityItem {
  const { id, at, state, rule, from, to, tries, crm } = row
  return {
    id,
    at,
    state: shownStates[state],
    rule,
    deal: row.is_test
      ? null
      : {
          name: row.deal_name,
          id: row.deal_id,
          url:
            row.deal_url ??
            providers[crm].dealUrl(
              { accountId: row.account_id, accountName: row.crm_account_name },
              row.deal_id,
            ),
        },
    from,
    to,
    channel: row.channel_name ?? (goesTo(row) === row.channel ? row.chat_channel_name : null),
    ...reasonFields(row, providers),
    tries,
    nextTryAt: state === 'pending' ? row.next_try_at : null,
  }
}

function reasonFields(
  row: ActivityRow,
  providers: Providers,
): Pick<ActivityItem, 'reason' | 'isOver'> {
  const { state, crm, chat } = row
  if (state === 'sent') return { reason: doubtOf(providers, row.channel) }
  const about = { state, reason: reasonOf(row), crm, chat: chat ?? undefined }
  // The check of a broken chat has sent the last message again (people/checks.ts).
  if (state === 'pending' && about.reason === null && chat !== null && !row.chat_works) {
    return { reason: `it shows whether ${registry[chat].name} works again` }
  }
  const works = row.crm_works && row.chat_works
  const reason = reasonInWords(providers, { ...about, works })
  const isOver = state === 'dead' && works && reason !== reasonInWords(providers, about)
  return { reason, ...(isOver && { isOver }) }
}

/** The id of the channel that gets the user's messages now. */
const goesTo = ({ chat_account: accountId, chat_channel: channelId }: ActivityRow) =>
  accountId === null ? undefined : channelOf({ accountId, channelId })

/** A pause is the channel's: it also holds up deliveries that were never tried, and it ends by itself. */
function reasonOf({ state, reason, is_paused }: ActivityRow): string | null {
  if (state !== 'pending') return reason
  if (is_paused === true) return 'rate_limited'
  return reason === 'rate_limited' ? null : reason
}
