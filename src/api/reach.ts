import { createStore } from './store.ts'

/** Why the page may show old data. The browser can be wrong in both ways, so any answer of the server ends it. */
export type Cut = 'offline' | 'unanswered' | undefined

const cutNow = (): Cut => (navigator.onLine ? 'unanswered' : 'offline')

const cut = createStore<Cut>(navigator.onLine ? undefined : 'offline')

window.addEventListener('offline', () => cut.set('offline'))
// The calls that it causes tell more.
window.addEventListener('online', () => cut.set(undefined))

/** Tells whether the server has answered a call, in whatever way. */
export function noticeAnswer(isAnswer: boolean): void {
  cut.set(isAnswer ? undefined : cutNow())
}

/** Whether the last call got no answer, or the browser has gone offline since. */
export const useCut = (): Cut => cut.use((now) => now)
