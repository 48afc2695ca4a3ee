import { useSyncExternalStore } from 'react'

/**
 * Whether the page reaches the server. Otherwise it may show old data. The browser can be wrong in both ways, so any
 * answer of the server counts.
 */
type Reach = 'answered' | 'unanswered' | 'offline'

let reach: Reach = navigator.onLine ? 'answered' : 'offline'
const listeners = new Set<() => void>()

function setReach(next: Reach): void {
  reach = next
  for (const listener of listeners) listener()
}

window.addEventListener('offline', () => setReach('offline'))
// The calls that it causes tell more.
window.addEventListener('online', () => setReach('answered'))

/** Tells whether the server has answered a call, in whatever way. */
export function noticeAnswer(isAnswer: boolean): void {
  setReach(isAnswer ? 'answered' : navigator.onLine ? 'unanswered' : 'offline')
}

/** Whether the last call got an answer, or the browser has gone offline since. */
export const useReach = (): Reach => useSyncExternalStore(subscribe, () => reach)

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}
