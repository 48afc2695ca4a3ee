import { useSearch } from '@tanstack/react-router'
import type { ActivityFilter } from '../api/activity.ts'
import { useHasFeature } from '../api/health.ts'

/** What the address asks for. A backend without the search gets only the state, and counts nothing. */
export function useFilter(): ActivityFilter {
  const search = useSearch({ from: '/activity' })
  return useHasFeature('activity-search') ? { ...search, counts: true } : { state: search.state }
}
