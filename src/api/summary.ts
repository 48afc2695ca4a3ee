import { useQuery } from '@tanstack/react-query'
import { activityEndpoints, type Summary, summaryAnswer } from '../../contract/activity.ts'
import { config } from '../config.ts'
import { getJson } from './client.ts'
import { useHasFeature } from './health.ts'
import { callOptions } from './query-client.ts'

/** How many days the summary covers, until today. */
export const summaryDays = 14

const { feature, path } = activityEndpoints.summary

/** This browser's time zone, in which days begin. */
export const timeZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone

export const summaryQuery = callOptions({
  queryKey: ['summary'],
  queryFn: () => {
    const query = new URLSearchParams({ days: String(summaryDays), zone: timeZone() })
    return getJson(`${path}?${query}`, summaryAnswer)
  },
  staleTime: 10_000,
  // Query pauses this while the page is hidden. All components that use the query cause one call, because
  // each answer restarts their timers.
  refetchInterval: 15_000,
  meta: { action: 'Loading the summary of messages', feature },
})

/** What each rule has sent. Makes no call if the backend does not offer it. */
export const useSummary = (options: { refetchOnMount?: 'always' } = {}) =>
  useQuery({ ...summaryQuery, ...options, enabled: useHasFeature(feature) })

/**
 * The provider to connect before any message can be sent; undefined if there is none, or if this is not known. Only
 * reads what other components have loaded.
 */
export function useConnectFirst() {
  // Only `data` is read, so that other changes of the summary render nothing.
  return useQuery({ ...summaryQuery, enabled: false, select: firstOf }).data
}

const firstOf = ({ connectFirst }: Summary) =>
  [config.chat, config.crm].find(({ id }) => connectFirst?.includes(id))
