import {
  infiniteQueryOptions,
  queryOptions,
  useInfiniteQuery,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { useMemo } from 'react'
import {
  type Activity,
  type ActivityItem,
  type ActivityState,
  activityAnswer,
  activityEndpoints,
  retryPath,
} from '../../contract/activity.ts'
import { call, getJson } from './client.ts'
import { useHasFeature } from './health.ts'
import { useSingleMutation } from './single-mutation.ts'
import { summaryQuery } from './summary.ts'

/** The state that is listed; undefined for all states. */
type Filter = ActivityState | undefined

/** How often the list is refreshed while the page is visible, in milliseconds. */
const refreshMs = 5000
const pageSize = 25
/** The most messages that a backend answers at once. */
const largestPage = 100
/** How many pages of new messages a refresh reads before it starts the list again. */
const mostNewPages = 4

const { feature, path } = activityEndpoints.activity

function getPage(state: Filter, before: string | null, limit: number): Promise<Activity> {
  const query = new URLSearchParams({ limit: String(limit) })
  if (before !== null) query.set('before', before)
  if (state !== undefined) query.set('state', state)
  return getJson(`${path}?${query}`, activityAnswer)
}

/** The pages that the user has loaded. */
const activityQuery = (state: Filter) =>
  infiniteQueryOptions({
    queryKey: ['activity', state ?? 'all'],
    queryFn: ({ pageParam }) => getPage(state, pageParam, pageSize),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    // A refetch would ask for every loaded page. The updates below ask for what may have changed.
    staleTime: Infinity,
    // The next visit begins with the newest messages, and nothing stays after the user signed out.
    gcTime: 0,
    meta: { action: 'Loading messages', feature },
  })

interface Updates {
  /** New messages, and loaded ones as they are now. */
  items: readonly ActivityItem[]
  /** Where the last refresh looked for older messages: in this page, and how to go on there. */
  looked: { page: number; next: string | null }
}

/**
 * What changed since the pages were loaded. A refresh usually makes one or two calls: one for the newest
 * messages, and one for older messages that may have changed. If more than 25 messages are new, it makes
 * up to three more
 * (docs/decisions/0504-the-list-of-messages-refreshes.md).
 */
const updatesQuery = (state: Filter) =>
  queryOptions({
    queryKey: ['activity-updates', state ?? 'all'],
    queryFn: async ({ client }): Promise<Updates> => {
      const { queryKey } = activityQuery(state)
      const pages = client.getQueryData(queryKey)?.pages ?? []
      const old = client.getQueryData(updatesQuery(state).queryKey) ?? noUpdates
      const known = byId([...pages.flatMap(({ items }) => items), ...old.items])

      const newest = await getNewest(state, known)
      if (newest === undefined) {
        void client.resetQueries({ queryKey })
        return noUpdates
      }
      const current = byId([...known.values(), ...newest])
      const place = placeToLook(pages, current, new Set(newest.map(({ id }) => id)), old.looked)
      if (place === undefined) {
        return { items: unique([...newest, ...old.items, ...newest]), looked: noUpdates.looked }
      }
      // Without the filter: the state may be another one by now.
      const { items, next } = await getPage(undefined, place.before, largestPage)
      const answered = byId(items)
      const found = items.filter(({ id }) => known.has(id))
      if (found.length === 0 && next === null) {
        void client.resetQueries({ queryKey })
        return noUpdates
      }
      const oldest = Math.min(...place.wanted.map(({ at }) => timeOf(at)))
      const isDone =
        place.wanted.every(({ id }) => answered.has(id)) ||
        items.some(({ at }) => timeOf(at) < oldest)
      return {
        items: unique([...newest, ...old.items, ...newest, ...found]),
        looked: { page: place.page, next: isDone ? null : next },
      }
    },
    initialData: noUpdates,
    staleTime: refreshMs,
    gcTime: 0,
    // Query pauses this while the page is hidden.
    refetchInterval: refreshMs,
    meta: { action: 'Refreshing the messages', feature },
  })

const noUpdates: Updates = { items: [], looked: { page: -1, next: null } }

/**
 * Returns the newest messages, down to one that is known. Undefined if there are so many that a gap
 * would remain, or if none is known.
 */
async function getNewest(
  state: Filter,
  known: ReadonlyMap<string, unknown>,
): Promise<ActivityItem[] | undefined> {
  const newest: ActivityItem[] = []
  let before: string | null = null
  for (let page = 0; page < mostNewPages; page += 1) {
    const answer: Activity = await getPage(state, before, pageSize)
    newest.push(...answer.items)
    if (answer.items.some(({ id }) => known.has(id))) return newest
    // Of what is listed, this user has nothing. So another user has signed in, or nobody is signed in.
    const mayLeave = state === 'waiting' || state === 'failed'
    if (answer.next === null) return known.size === 0 || mayLeave ? newest : undefined
    before = answer.next
  }
  return undefined
}

/**
 * Chooses the next page that contains messages that may have changed. Waiting messages change by
 * themselves, so they come first. Failed ones change if the user sends them again elsewhere.
 */
function placeToLook(
  pages: readonly Activity[],
  current: ReadonlyMap<string, ActivityItem>,
  seen: ReadonlySet<string>,
  looked: Updates['looked'],
): { page: number; before: string | null; wanted: readonly ActivityItem[] } | undefined {
  const pageOf = new Map(
    pages.flatMap(({ items }, page) => items.map(({ id }) => [id, page] as const)),
  )
  const unseen = [...current.values()].filter(({ id }) => !seen.has(id))
  const state = unseen.some((item) => item.state === 'waiting') ? 'waiting' : 'failed'
  const wanted = new Map<number, ActivityItem[]>()
  for (const item of unseen) {
    if (item.state !== state) continue
    // A message that came after the first page was loaded is above it.
    const page = pageOf.get(item.id) ?? 0
    wanted.set(page, [...(wanted.get(page) ?? []), item])
  }
  const open = [...wanted.keys()].sort((a, b) => a - b)
  const isHalfDone = looked.next !== null && wanted.has(looked.page)
  const page = isHalfDone ? looked.page : (open.find((each) => each > looked.page) ?? open[0])
  if (page === undefined) return undefined
  const before = isHalfDone ? looked.next : (pages[page - 1]?.next ?? null)
  return { page, before, wanted: wanted.get(page) ?? [] }
}

/**
 * The messages of this browser's user, the newest first: an infinite query with `fetchNextPage` for
 * older ones. Take the messages from `items`, which are up to date; `data` has the pages as they were
 * loaded. `updates` is the query that refreshes them. A message stays in `items` when its state
 * changes, also if another state is listed. Makes no call if the backend does not offer it.
 */
export function useActivity(state?: ActivityState) {
  const isOffered = useHasFeature(feature)
  const loaded = useInfiniteQuery({ ...activityQuery(state), enabled: isOffered })
  const updates = useQuery({ ...updatesQuery(state), enabled: loaded.data !== undefined })
  const items = useMemo(() => {
    const older = loaded.data?.pages.flatMap((page) => page.items) ?? []
    const ids = byId(older)
    const added = updates.data.items.filter(({ id }) => !ids.has(id))
    // This order counts for messages of the same time.
    return newestFirst([...added, ...older, ...updates.data.items])
  }, [loaded.data, updates.data])
  return { ...loaded, items, updates }
}

/** Sends a failed message again. Then it is waiting, in every list. */
export function useRetry(item: ActivityItem) {
  const queryClient = useQueryClient()
  const [name] = updatesQuery(undefined).queryKey
  const lists = { queryKey: [name] }
  return useSingleMutation({
    mutationKey: ['retry-message', item.id],
    mutationFn: () => call(activityEndpoints.retry.method, retryPath(item.id)),
    onSuccess: () => {
      const waiting: ActivityItem = { ...item, state: 'waiting', reason: null, nextTryAt: null }
      queryClient.setQueriesData<Updates>(
        lists,
        (updates) => updates && { ...updates, items: unique([...updates.items, waiting]) },
      )
    },
    // The list soon shows what became of the message, also if the call was refused. This drops the
    // answer to an earlier refresh, which would show the message as failed again.
    onSettled: () => {
      void queryClient.invalidateQueries(lists)
      void queryClient.invalidateQueries({ queryKey: summaryQuery.queryKey })
    },
    meta: { action: 'Sending a message again' },
  })
}

const timeOf = (at: string) => Date.parse(at)

const byId = (items: readonly ActivityItem[]) => new Map(items.map((item) => [item.id, item]))

const newestFirst = (items: readonly ActivityItem[]) =>
  unique(items).sort((a, b) => timeOf(b.at) - timeOf(a.at))

/** Returns each message once. Its position is that of its first copy, its content that of its last copy. */
const unique = (items: readonly ActivityItem[]) => [...byId(items).values()]
