import {
  infiniteQueryOptions,
  keepPreviousData,
  type QueryClient,
  useInfiniteQuery,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import {
  type Activity,
  type ActivityItem,
  type ActivityState,
  activityAnswer,
  activityCall,
} from '../../contract/features/activity.ts'
import { getJson } from './client.ts'
import { useHasFeature } from './health.ts'
import { activityKey, featuresKey } from './keys.ts'
import { callOptions, every, whenShown, whileFailed } from './query-client.ts'
import { queryString } from './query-string.ts'

/** What is listed; undefined for everything. Without the feature `activity-search`, only the state. */
export interface ActivityFilter {
  state?: ActivityState | undefined
  rule?: string | undefined
  /** A part of the deal's name. */
  q?: string | undefined
  /** A date such as `2026-11-21`, in this browser's time zone. */
  day?: string | undefined
  /** Also says how many messages the other parameters find in each state. */
  counts?: true | undefined
}

export interface Refresh {
  /** Undefined before the first refresh. */
  newest?: Activity
  /** The listed messages as they were answered last, by id. */
  current: Readonly<Record<string, ActivityItem>>
}

const unchanged: Refresh = { current: {} }

/** How often the list is refreshed while the page is visible, in milliseconds. */
const refreshMs = 5000
export const pageSize = 25
/** The most messages that a refresh asks for by their ids. */
const mostIds = 100

const { feature, path } = activityCall
export const refreshKey = [...activityKey, 'refresh'] as const

const getPage = (
  parameters: ({ limit: number; before?: string | undefined } & ActivityFilter) | { ids: string },
) => getJson(path + queryString(parameters), activityAnswer, { readsRefusal: true })

/**
 * The pages as they were when they loaded. Nothing loads them again, because that would move what the user reads. So
 * its key is not below `activityKey`.
 */
const pagesQuery = (filter: ActivityFilter) =>
  infiniteQueryOptions({
    queryKey: [...featuresKey, 'pages', filter],
    queryFn: ({ pageParam }) => {
      const counts = pageParam === '' ? filter.counts : undefined
      const before = pageParam || undefined
      return getPage({ limit: pageSize, before, ...filter, counts })
    },
    initialPageParam: '',
    getNextPageParam: ({ next }) => next,
    staleTime: Infinity,
    // The next visit begins with the newest messages.
    gcTime: 0,
    refetchInterval: (query) => query.state.data === undefined && whileFailed(query),
    meta: { action: 'Loading messages' },
  })

/** What has changed since, and what is new. */
const refreshQuery = (filter: ActivityFilter) =>
  callOptions({
    queryKey: [...refreshKey, filter],
    queryFn: ({ client }) => refresh(client, filter),
    initialData: unchanged,
    ...whenShown,
    staleTime: refreshMs,
    gcTime: 0,
    // Query pauses this while the page is hidden.
    refetchInterval: every(refreshMs),
    meta: { action: 'Loading messages' },
  })

/** docs/decisions.md, 504, says what else there was. */
async function refresh(client: QueryClient, filter: ActivityFilter): Promise<Refresh> {
  const { current } = client.getQueryData(refreshQuery(filter).queryKey) ?? unchanged
  const listed = () => itemsOf(client.getQueryData(pagesQuery(filter).queryKey), current)
  const newest = await getPage({ limit: pageSize, ...filter })
  // An empty list shows its first messages by itself.
  const isFirst = listed().length === 0 && newest.items.length > 0
  if (isFirst) void listNewest(client, filter, newest)
  const inNewest = new Set(newest.items.map(({ id }) => id))
  const ids = listed()
    // Only these can change.
    .filter(({ id, state }) => (state === 'waiting' || state === 'failed') && !inNewest.has(id))
    .slice(0, mostIds)
    .map(({ id }) => id)
  const asked = ids.length === 0 ? [] : (await getPage({ ids: ids.join() })).items
  const answered = new Map([...newest.items, ...asked].map((item) => [item.id, item]))
  // Without the messages that only the newest pages had: their number grows for as long as the page is open.
  const known = listed().map((item) => [item.id, answered.get(item.id) ?? item] as const)
  return { newest, current: Object.fromEntries(known) }
}

/** Begins the list again with its newest page, which is loaded already. */
async function listNewest(client: QueryClient, filter: ActivityFilter, newest: Activity) {
  const { queryKey } = pagesQuery(filter)
  await client.cancelQueries({ queryKey })
  client.setQueryData(queryKey, { pages: [newest], pageParams: [''] })
}

/**
 * The messages of this browser's user, the newest first. A message stays here when its state changes, also if another
 * state is listed. Makes no call if the backend does not offer it.
 */
export function useActivity(filter: ActivityFilter) {
  const client = useQueryClient()
  const pages = useInfiniteQuery({
    ...pagesQuery(filter),
    enabled: useHasFeature(feature),
    // The list stays until that of the next filter is there.
    placeholderData: keepPreviousData,
  })
  const isListed = pages.data !== undefined && !pages.isPlaceholderData
  const refreshes = useQuery({ ...refreshQuery(filter), enabled: isListed })
  const { newest, current } = refreshes.data ?? unchanged
  const items = itemsOf(pages.data, current)
  const listed = new Set(items.map(({ id }) => id))
  const oldest = timeOf(items.at(-1))
  // When a message leaves the filter, an older one enters the newest page.
  const isNew = (item: ActivityItem) =>
    !listed.has(item.id) && (!pages.hasNextPage || timeOf(item) > oldest)
  return {
    pages,
    refreshes,
    items,
    /** As it was answered last. */
    firstPage: newest ?? pages.data?.pages[0],
    /** How many messages are new; at most a page. */
    newCount: isListed ? (newest?.items.filter(isNew).length ?? 0) : 0,
    showNewest: () => newest && listNewest(client, filter, newest),
  }
}

const itemsOf = (list: { pages: Activity[] } | undefined, current: Refresh['current']) =>
  (list?.pages ?? []).flatMap(({ items }) => items).map((item) => current[item.id] ?? item)

const timeOf = (item: ActivityItem | undefined) => Date.parse(item?.at ?? '')
