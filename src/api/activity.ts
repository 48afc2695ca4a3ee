import { type QueryClient, replaceEqualDeep, useQuery, useQueryClient } from '@tanstack/react-query'
import {
  type Activity,
  type ActivityCounts,
  type ActivityItem,
  type ActivityState,
  activityAnswer,
  activityEndpoints,
  retryPath,
} from '../../contract/activity.ts'
import { call, getJson } from './client.ts'
import { useHasFeature } from './health.ts'
import { activityKey } from './keys.ts'
import { currentTurn } from './person.ts'
import { callOptions } from './query-client.ts'
import { useSingleMutation } from './single-mutation.ts'
import { queryOf, summaryQuery } from './summary.ts'

/** What is listed; undefined for everything. Without the feature `activity-search`, only the state. */
export interface ActivityFilter {
  state?: ActivityState | undefined
  rule?: string | undefined
  /** A part of the deal's name. */
  q?: string | undefined
  /** A date such as `2026-11-21`, in this browser's time zone. */
  day?: string | undefined
  /** Also says how many messages the other parameters find in each state. */
  counts?: true
}

interface List {
  /** The newest first. A message stays here when its state changes, also if another state is listed. */
  items: readonly ActivityItem[]
  /** The `before` of the next older page; null if there is none. */
  next: string | null
  /** How far back the last page has searched, if the search is not at its end. */
  searchedTo: string | null
  /** How many messages are in each state, if the backend says so. */
  counts: ActivityCounts | undefined
  /** How many messages 'Send all again' sends, if the backend says so. */
  retryable: Activity['retryable']
  /** The turn of the person whose messages these are. */
  turn: number
  /** The `before` with which the next refresh goes on through a long list; null to begin again. */
  round: string | null
  /** How many messages the first page, or else the last older page, contained. */
  loaded: number
  /** Whether the list has started again since the user loaded a page of it. */
  startedAgain: boolean
  /** How many messages the list may have: what the user loaded, and so many that came since. */
  most: number
}

/** How often the list is refreshed while the page is visible, in milliseconds. */
const refreshMs = 5000
const pageSize = 25
/** The most messages that a backend answers at once. */
const largestPage = 100
/** How many messages may come to a list before it starts again. Otherwise a page that stays open only grows. */
const mostAdded = 200

const { feature, path } = activityEndpoints.activity
const listsKey = [...activityKey, 'list'] as const

const getPage = (
  parameters: ({ limit: number; before?: string } & ActivityFilter) | { ids: string },
): Promise<Activity> => getJson(path + queryOf(parameters), activityAnswer)

const activityQuery = (filter: ActivityFilter) =>
  callOptions({
    queryKey: [...listsKey, filter],
    queryFn: ({ client }) => refresh(client, filter),
    // Query compares items of the same position, and a new message moves all others. `merge` compares them.
    structuralSharing: false,
    staleTime: refreshMs,
    // The next visit begins with the newest messages, and `useRetry` changes only the list on screen.
    gcTime: 0,
    // Query pauses this while the page is hidden.
    refetchInterval: refreshMs,
    meta: { action: 'Loading messages' },
  })

/**
 * Loads what changed in a list, with one to three calls, or a new list. If a message is new or
 * has another state, the summary loads too
 * (docs/decisions/0504-the-list-of-messages-refreshes.md).
 */
async function refresh(client: QueryClient, filter: ActivityFilter): Promise<List> {
  const { queryKey } = activityQuery(filter)
  const begun = currentTurn()
  const isSearch = filter.q !== undefined || filter.rule !== undefined
  const old = client.getQueryData(queryKey)
  const shown = old?.items ?? []

  const limit = Math.min(Math.max(shown.length, pageSize), largestPage)
  const newest = await getPage({ limit, ...filter })
  const answered = byId(newest.items)
  const others = shown.filter(({ id }) => !answered.has(id))
  const isKnown = others.length < shown.length

  // Waiting messages change by themselves, failed ones if the user sends them again elsewhere. If no other
  // message is known, the others tell whether they are still this user's.
  const open = others.filter((item) => item.state === 'waiting' || item.state === 'failed')
  const turn = client.getQueryState(queryKey)?.dataUpdateCount ?? 0
  const asked = byId(inTurn(open.length > 0 || isKnown ? open : others, turn))
  // A message that is found late may belong anywhere. The newest page is the whole of most lists.
  const before = shown.length > largestPage && !isSearch ? (old?.round ?? newest.next) : null
  const [current, further] = await Promise.all([
    asked.size === 0 ? [] : getPage({ ids: [...asked.keys()].join() }).then(({ items }) => items),
    before === null ? undefined : getPage({ limit: largestPage, before, ...withoutCounts(filter) }),
  ])

  // The user may have loaded older messages meanwhile.
  const list = client.getQueryData(queryKey)
  // Either there are so many new messages that a gap would remain, or this is another user.
  // The newest page of a search may have none of the messages that its older pages found.
  const isGap = newest.next !== null && newest.searchedTo == null
  const isOther = current.length === 0 && !(isSearch && shown.length === 0)
  const startsAgain = !isKnown && (isGap || isOther)
  if (list === undefined) return listOf(newest, { turn: begun, startedAgain: false })
  const listed = [...newest.items, ...(further?.items ?? [])]
  const former = byId(list.items)
  const added = listed.filter(({ id }) => !former.has(id))
  const items = merge(added, list.items, listed, current)
  if (items.some(({ id, state }) => former.get(id)?.state !== state)) {
    void client.invalidateQueries({ queryKey: summaryQuery.queryKey })
  }
  if (startsAgain || items.length > list.most) {
    return listOf(newest, { turn: begun, startedAgain: list.items.length > 0 })
  }

  const last = further ?? newest
  const oldest = list.items.at(-1)
  const isEnd =
    last.next === null ||
    last.items.some(({ id, at }) => id === oldest?.id || timeOf(at) < timeOf(oldest?.at ?? ''))
  const { counts, retryable } = newest
  // How far a search has come is known only by its own pages.
  if (isSearch) return { ...list, items, counts, retryable }
  return {
    ...list,
    items,
    counts,
    retryable,
    next: isEnd ? last.next : list.next,
    round: isEnd ? null : last.next,
  }
}

/** A list that begins with its newest page. */
function listOf(
  { items, next, searchedTo = null, counts, retryable }: Activity,
  about: Pick<List, 'turn' | 'startedAgain'>,
): List {
  const loaded = items.length
  return {
    items,
    next,
    searchedTo,
    counts,
    retryable,
    round: null,
    loaded,
    most: loaded + mostAdded,
    ...about,
  }
}

/** Only the newest page needs the counts. */
const withoutCounts = ({ counts: _, ...filter }: ActivityFilter): ActivityFilter => filter

/** Returns up to 100 of the messages, others in each turn. */
function inTurn(items: readonly ActivityItem[], turn: number): readonly ActivityItem[] {
  const turns = Math.ceil(items.length / largestPage)
  const start = (turn % turns) * largestPage
  return items.slice(start, start + largestPage)
}

/**
 * The messages of this browser's user: `list` refreshes itself, `older.mutate(list.data.next)` loads the
 * next older page. Makes no call if the backend does not offer it.
 */
export function useActivity(filter: ActivityFilter) {
  const queryClient = useQueryClient()
  const query = activityQuery(filter)
  const list = useQuery({
    ...query,
    enabled: useHasFeature(feature),
    // The list stays until that of the next filter is there, but never for the next person.
    placeholderData: (former) => (former?.turn === currentTurn() ? former : undefined),
  })
  const older = useSingleMutation({
    mutationKey: ['load-older', JSON.stringify(filter)],
    mutationFn: (before: string) => getPage({ limit: pageSize, before, ...withoutCounts(filter) }),
    onSuccess: ({ items, next, searchedTo = null }, before) => {
      queryClient.setQueryData(query.queryKey, (list) =>
        // Otherwise the list has started again, and this page is no longer the next one.
        list?.next === before
          ? {
              ...list,
              items: merge(list.items, items),
              next,
              searchedTo,
              loaded: items.length,
              startedAgain: false,
              most: list.most + items.length,
            }
          : list,
      )
    },
    meta: { action: 'Loading older messages' },
  })
  return { list, older }
}

/** Sends a failed message again. Then it is waiting, in every list. */
export function useRetry(item: ActivityItem) {
  const queryClient = useQueryClient()
  return useSingleMutation({
    mutationKey: ['retry-message', item.id],
    isInOrder: true,
    mutationFn: () =>
      call(activityEndpoints.retry.method, retryPath(item.id), { readsRefusal: true }),
    onSuccess: () => {
      const waiting: ActivityItem = { ...item, state: 'waiting', reason: null, nextTryAt: null }
      queryClient.setQueriesData<List>(
        { queryKey: listsKey },
        (list) => list && { ...list, items: merge(list.items, [waiting]) },
      )
    },
    // The list soon shows what became of the message, also if the call was refused. This drops the
    // answer to an earlier refresh, which would show the message as failed again.
    onSettled: () => void queryClient.invalidateQueries({ queryKey: activityKey }),
    meta: { action: 'Sending a message again' },
  })
}

const timeOf = (at: string) => Date.parse(at)

const byId = (items: readonly ActivityItem[]) => new Map(items.map((item) => [item.id, item]))

/**
 * Returns each message once, as the last of the lists has it, the newest first. A message that has not
 * changed stays the same object, so that its row does not render again.
 */
function merge(...lists: (readonly ActivityItem[])[]): ActivityItem[] {
  const items = new Map<string, ActivityItem>()
  // The first list decides the order of messages of the same time.
  for (const item of lists.flat()) {
    items.set(item.id, replaceEqualDeep(items.get(item.id), item))
  }
  return [...items.values()].sort((a, b) => timeOf(b.at) - timeOf(a.at))
}
