import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type Summary, summaryAnswer, summaryCall } from '../../contract/features/activity.ts'
import { config } from '../config.ts'
import { getJson } from './client.ts'
import { useHasFeature } from './health.ts'
import { activityKey } from './keys.ts'
import { callOptions, whenShown } from './query-client.ts'

/** How many days the summary covers, until today. */
export const summaryDays = 14

const { feature, path } = summaryCall

/** This browser's time zone. Undefined if it is unknown: Chromium on Linux then says `Etc/Unknown`, which no `Intl` takes. */
function knownZone(): string | undefined {
  try {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
    Intl.DateTimeFormat('en', { timeZone })
    return timeZone
  } catch {
    return undefined
  }
}

/** A query such as `?days=14&zone=UTC`, without the parameters that are undefined. Days begin in this browser's zone. */
export function queryOf(parameters: object): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(name, String(value))
  }
  const zone = knownZone()
  if (zone !== undefined && (query.has('day') || query.has('days'))) query.set('zone', zone)
  return query.size === 0 ? '' : `?${query}`
}

const summaryQuery = callOptions({
  queryKey: [...activityKey, 'summary'],
  queryFn: () => getJson(path + queryOf({ days: summaryDays }), summaryAnswer),
  ...whenShown,
  staleTime: 10_000,
  // Query pauses this while the page is hidden. All components that use the query cause one call, because
  // each answer restarts their timers.
  refetchInterval: 15_000,
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
 * The provider to connect before any message can be sent; undefined if there is none, or if this is not known. Only
 * reads what other components have loaded.
 */
export function useConnectFirst() {
  // Only `data` is read, so that other changes of the summary render nothing.
  return useQuery({ ...summaryQuery, enabled: false, select: firstOf }).data
}

const firstOf = ({ connectFirst }: Summary) =>
  [config.chat, config.crm].find(({ id }) => connectFirst?.includes(id))
