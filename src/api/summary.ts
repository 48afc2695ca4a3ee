import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { summaryAnswer, summaryCall } from '../../contract/features/activity.ts'
import { config, type Provider } from '../config.ts'
import { getJson } from './client.ts'
import { useHasFeature } from './health.ts'
import { activityKey } from './keys.ts'
import { callOptions, every, whenShown } from './query-client.ts'
import { queryString } from './query-string.ts'

/** How many days the summary covers, until today. */
export const summaryDays = 14

const { feature, path } = summaryCall

const summaryQuery = callOptions({
  queryKey: [...activityKey, 'summary'],
  queryFn: () =>
    getJson(path + queryString({ days: summaryDays }), summaryAnswer, { readsRefusal: true }),
  ...whenShown,
  staleTime: 10_000,
  // Query pauses this while the page is hidden. All components that use the query cause one call, because
  // each answer restarts their timers.
  refetchInterval: every(15_000),
  meta: { action: 'Loading the summary of messages' },
})

/** What each rule has sent. Makes no call if the backend does not offer it. */
export const useSummary = (options: { refetchOnMount?: 'always' } = {}) =>
  useQuery({ ...summaryQuery, ...options, enabled: useHasFeature(feature) })

/**
 * Whether what a result says to wait has been sent or has failed since: messages were waiting, and none is any more.
 * @param isWaiting whether such a result is on screen
 */
export function useHasWaited(isWaiting: boolean): boolean {
  const waiting = useSummary().data?.waiting ?? 0
  const [state, setState] = useState<'new' | 'counted' | 'over'>('new')
  let next = state
  if (!isWaiting) next = 'new'
  else if (waiting === 0 && state === 'counted') next = 'over'
  else if (waiting > 0 && state === 'new') next = 'counted'
  if (next !== state) setState(next)
  return next === 'over'
}

/**
 * The provider to connect before any message can be sent; null if there is none, or if the backend does not say;
 * undefined while this is not known.
 */
export function useConnectFirst(): Provider | null | undefined {
  const { data, isFetched } = useSummary()
  if (!isFetched) return undefined
  return [config.chat, config.crm].find(({ id }) => data?.connectFirst?.includes(id)) ?? null
}
