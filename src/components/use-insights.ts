import { useEffect, useState } from 'react'

type Insights = typeof import('./Insights.tsx')

/**
 * Loads what the dashboard shows beyond §7, once `isWanted` is true. It loads after the frame that shows
 * what §7 names, so that it delays nothing. Without it, the dashboard works as with §7 alone.
 */
export function useInsights(isWanted: boolean): Insights | undefined {
  const [insights, setInsights] = useState<Insights>()
  useEffect(() => {
    if (!isWanted) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const frame = requestAnimationFrame(() => {
      // The browser paints after this function, and before the timer.
      timer = setTimeout(() => {
        load().then(setInsights, () => console.error('Loading the insights failed'))
      })
    })
    return () => {
      cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
  }, [isWanted])
  return insights
}

function load(): Promise<Insights> {
  // The links contain the integrity of the scripts (docs/server/sessions-and-safety.md).
  for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel=later]')) {
    link.rel = 'modulepreload'
  }
  return import('./Insights.tsx')
}
