import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { loadLateStyles } from './late-styles.ts'

type Insights = typeof import('../late/Insights.tsx')

// Outside the components, so that the header of the same app has what the screen has loaded.
const loaded = new WeakMap<QueryClient, Insights>()
const listeners = new Set<() => void>()

/**
 * Loads what the pages show beyond §7, once `isWanted` is true. It loads after the frame that shows
 * what §7 names, so that it delays nothing. Without it, the dashboard works as with §7 alone.
 */
export function useInsights(isWanted: boolean): Insights | undefined {
  const queryClient = useQueryClient()
  useEffect(() => {
    if (!isWanted) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const frame = requestAnimationFrame(() => {
      // The browser paints after this function, and before the timer.
      timer = setTimeout(() => {
        load().then(
          (insights) => {
            loaded.set(queryClient, insights)
            for (const listener of listeners) listener()
          },
          () => console.error('Loading the insights failed'),
        )
      })
    })
    return () => {
      cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
  }, [isWanted, queryClient])
  return useSyncExternalStore(subscribe, () => loaded.get(queryClient))
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}

const loadScript = () => import('../late/Insights.tsx')

async function load(): Promise<Insights> {
  // The links contain the integrity of the scripts (docs/server/sessions-and-safety.md).
  for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel=later]')) {
    link.rel = 'modulepreload'
  }
  const styles = loadLateStyles()
  const insights = await loadScript()
  await styles
  return insights
}
