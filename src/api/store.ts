import { useSyncExternalStore } from 'react'

const resets: (() => void)[] = []

/** Gives each store its first value again, because a new page begins. */
export function resetStores(): void {
  for (const reset of resets) reset()
}

/** A value that components show although no query has it. */
export function createStore<Value>(first: Value) {
  let value = first
  const listeners = new Set<() => void>()
  function subscribe(listener: () => void): () => void {
    listeners.add(listener)
    return () => {
      listeners.delete(listener)
    }
  }
  function set(next: Value): void {
    value = next
    for (const listener of listeners) listener()
  }
  resets.push(() => set(first))
  return {
    get: () => value,
    set,
    use: <Part>(select: (value: Value) => Part): Part =>
      useSyncExternalStore(subscribe, () => select(value)),
  }
}
