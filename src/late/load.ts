import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import stylesAddress from './late.css?url'

type Parts = typeof import('./parts.ts').parts

// Outside the components, so that the header of the same app has what the screen has loaded.
const loaded = new WeakMap<QueryClient, Parts>()
// For the next screen of an app. The header, which makes calls, does not show them yet.
const prepared = new WeakMap<QueryClient, Parts>()
const listeners = new Set<() => void>()

/**
 * Loads what the pages show beyond §7, once `isWanted` is true. It loads after the frame that shows
 * what §7 names, so that it delays nothing. Without it, the dashboard works as with §7 alone.
 */
export function useLateParts(isWanted: boolean): Parts | undefined {
  const queryClient = useQueryClient()
  useEffect(() => {
    if (!isWanted) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const frame = requestAnimationFrame(() => {
      // The browser paints after this function, and before the timer.
      timer = setTimeout(async () => {
        const parts = await prepareLateParts(queryClient)
        if (parts === undefined) return
        loaded.set(queryClient, parts)
        for (const listener of listeners) listener()
      })
    })
    return () => {
      cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
  }, [isWanted, queryClient])
  return useSyncExternalStore(
    subscribe,
    () => loaded.get(queryClient) ?? (isWanted ? prepared.get(queryClient) : undefined),
  )
}

/** The late parts if they are prepared. A part that makes no call can be shown before the calls of §7 are answered. */
export function usePreparedParts(): Parts | undefined {
  return prepared.get(useQueryClient())
}

/** Loads the late parts, so that the next screen that wants them shows them at once. Undefined if that fails. */
export async function prepareLateParts(queryClient: QueryClient): Promise<Parts | undefined> {
  try {
    const parts = await load()
    prepared.set(queryClient, parts)
    return parts
  } catch {
    console.error('Loading what goes beyond section 7 failed')
    return undefined
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}

const loadScript = () => import('./parts.ts')

async function load(): Promise<Parts> {
  // The scripts that parts.ts imports then load at the same time as parts.ts.
  for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel=late]')) {
    link.rel = 'modulepreload'
  }
  const styles = loadLateStyles()
  const { parts } = await loadScript()
  await styles
  return parts
}

let loadingStyles: Promise<unknown> | undefined

/** Loads the styles of what loads late, once. Resolves when they apply. */
export function loadLateStyles(): Promise<unknown> {
  loadingStyles ??= new Promise((resolve) => {
    // The build's link contains the integrity. In development there is none.
    const link =
      document.querySelector<HTMLLinkElement>('link[as=style]') ?? document.createElement('link')
    // If the styles do not load, the browser logs it, and the page shows the late parts without them.
    link.onload = link.onerror = resolve
    link.href = stylesAddress
    // After the other sheet, whose rules it repeats.
    document.head.append(link)
    link.rel = 'stylesheet'
  })
  return loadingStyles
}
