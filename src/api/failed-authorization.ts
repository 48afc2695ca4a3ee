import { useSyncExternalStore } from 'react'
import type { Provider } from '../parse-config.ts'
import { currentTurn, onNextPerson } from './person.ts'

/**
 * What the callback page said last, so that other screens can repeat it. It stays in memory, for one person: the next
 * attempt leaves the page.
 */
let failed: { provider: string; message: string; turn: number } | undefined

/**
 * Keeps the words of a failed authorization, or forgets those of an earlier one. It tells no component: none shows the
 * words on the callback page, nor those of a connected service.
 */
export function keepFailure({ id }: Provider, message: string | undefined): void {
  if (message !== undefined) failed = { provider: id, message, turn: currentTurn() }
  else if (failed?.provider === id) failed = undefined
}

/** What the callback page said of this provider; undefined if the last authorization did not fail. */
export const failureOf = ({ id }: Provider): string | undefined =>
  failed?.provider === id && failed.turn === currentTurn() ? failed.message : undefined

export const useFailedAuthorization = (provider: Provider): string | undefined =>
  useSyncExternalStore(onNextPerson, () => failureOf(provider))
