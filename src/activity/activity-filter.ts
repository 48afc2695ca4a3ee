import { useSearch } from '@tanstack/react-router'
import type { ActivityFilter } from '../api/activity.ts'
import { useHasFeature } from '../api/health.ts'

/** What the address asks for. A backend without the search gets only the state, and counts nothing. */
export function useFilter(): ActivityFilter {
  const { state, rule, q, day } = useSearch({ from: '/activity' })
  const canSearch = useHasFeature('activity-search')
  if (!canSearch) return { state }
  return {
    state,
    rule: rule?.slice(0, longest) || undefined,
    q: q?.trim().slice(0, longest) || undefined,
    day: day !== undefined && isDate(day) ? day : undefined,
    counts: true,
  }
}

/** The longest text that a backend takes. */
export const longest = 100

function isDate(text: string): boolean {
  const date = new Date(/^2\d{3}-\d{2}-\d{2}$/.test(text) ? text : Number.NaN)
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text)
}
