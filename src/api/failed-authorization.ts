import { useSyncExternalStore } from 'react'
import type { Provider } from '../parse-config.ts'
import { currentTurn, onNextPerson } from './person.ts'

/**
 * What the callback page said last, so that other screens can repeat it. It stays in memory, for one person: the next
 * attempt leaves the page.
 */
let failed: { provider: string; message: string; turn: number } | undefined

const listeners = new Set<() => void>()

/** Keeps the words of a failed authorization, or forgets those of an earlier one. */
export function keepFailure({ id }: Provider, message: string | undefined): void {
  if (message !== undefined) failed = { provider: id, message, turn: currentTurn() }
  else if (failed?.provider === id) failed = undefined
  for (const listener of listeners) listener()
}

// The browser may bring this page back after the next attempt.
window.addEventListener('pagehide', () => {
  failed = undefined
})

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  const end = onNextPerson(listener)
  return () => {
    listeners.delete(listener)
    end()
  }
}

/** What the callback page said of this provider; undefined if the last authorization did not fail. */
export function useFailedAuthorization({ id }: Provider): string | undefined {
  return useSyncExternalStore(subscribe, () =>
    failed?.provider === id && failed.turn === currentTurn() ? failed.message : undefined,
  )
}
