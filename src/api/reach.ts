import type { ApiError } from './errors.ts'
import { createStore } from './store.ts'

/**
 * Whether the page reaches the server. Otherwise it may show old data. The browser can be wrong in both ways, so any
 * answer of the server counts.
 */
type Reach = 'answered' | 'unanswered' | 'offline' | 'signed out'

const reach = createStore<Reach>(navigator.onLine ? 'answered' : 'offline')

window.addEventListener('offline', () => reach.set('offline'))
// The calls that it causes tell more.
window.addEventListener('online', () => reach.set('answered'))

/** Learns from the end of a call. An answer of any kind counts. */
export function noticeAnswer(failure?: ApiError['kind']): void {
  if (failure === 'page') reach.set('signed out')
  else if (failure === 'network' || failure === 'timeout')
    reach.set(navigator.onLine ? 'unanswered' : 'offline')
  // A fault of our own says nothing about the server.
  else if (failure !== 'unknown') reach.set('answered')
}

/** Whether the last call got an answer, or the browser has gone offline since. */
export const useReach = (): Reach => reach.use((now) => now)
