import { createStore } from './store.ts'

/**
 * Whether the page reaches the server. Otherwise it may show old data. The browser can be wrong in both ways, so any
 * answer of the server counts.
 */
type Reach = 'answered' | 'unanswered' | 'offline'

const reach = createStore<Reach>(navigator.onLine ? 'answered' : 'offline')

window.addEventListener('offline', () => reach.set('offline'))
// The calls that it causes tell more.
window.addEventListener('online', () => reach.set('answered'))

/** Tells whether the server has answered a call, in whatever way. */
export function noticeAnswer(isAnswer: boolean): void {
  reach.set(isAnswer ? 'answered' : navigator.onLine ? 'unanswered' : 'offline')
}

/** Whether the last call got an answer, or the browser has gone offline since. */
export const useReach = (): Reach => reach.use((now) => now)
