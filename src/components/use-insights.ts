import { queryOptions, skipToken, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'

type Insights = typeof import('./Insights.tsx')

// In the cache, so that the header has what the screen has loaded.
const insightsQuery = queryOptions({
  queryKey: ['insights'],
  queryFn: skipToken,
  initialData: null as Insights | null,
  staleTime: Infinity,
  gcTime: Infinity,
  meta: { action: 'Loading the insights', about: 'nobody' },
})

/**
 * Loads what the pages show beyond §7, once `isWanted` is true. It loads after the frame that shows
 * what §7 names, so that it delays nothing. Without it, the dashboard works as with §7 alone.
 */
export function useInsights(isWanted: boolean): Insights | null | undefined {
  const queryClient = useQueryClient()
  useEffect(() => {
    if (!isWanted) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const frame = requestAnimationFrame(() => {
      // The browser paints after this function, and before the timer.
      timer = setTimeout(() => {
        load().then(
          (insights) => queryClient.setQueryData(insightsQuery.queryKey, insights),
          () => console.error('Loading the insights failed'),
        )
      })
    })
    return () => {
      cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
  }, [isWanted, queryClient])
  return useQuery(insightsQuery).data
}

function load(): Promise<Insights> {
  // The links contain the integrity of the scripts (docs/server/sessions-and-safety.md).
  for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel=later]')) {
    link.rel = 'modulepreload'
  }
  return import('./Insights.tsx')
}
