import { useSyncExternalStore } from 'react'

/** A value that components show although no query has it. */
export function createStore<Value>(value: Value) {
  const listeners = new Set<() => void>()
  function subscribe(listener: () => void): () => void {
    listeners.add(listener)
    return () => {
      listeners.delete(listener)
    }
  }
  return {
    get: () => value,
    set(next: Value): void {
      value = next
      for (const listener of listeners) listener()
    },
    use: <Part>(select: (value: Value) => Part): Part =>
      useSyncExternalStore(subscribe, () => select(value)),
  }
}
