import { useSyncExternalStore } from 'react'

/** Why the page may show old data. The browser can be wrong in both ways, so any answer of the server ends it. */
export type Cut = 'offline' | 'unanswered' | undefined

const cutNow = (): Cut => (navigator.onLine ? 'unanswered' : 'offline')

let cut: Cut = navigator.onLine ? undefined : 'offline'
const listeners = new Set<() => void>()

function setCut(next: Cut): void {
  cut = next
  for (const listener of listeners) listener()
}

window.addEventListener('offline', () => setCut('offline'))
// The calls that it causes tell more.
window.addEventListener('online', () => setCut(undefined))

/** Tells whether the server has answered a call, in whatever way. */
export function noticeAnswer(isAnswer: boolean): void {
  setCut(isAnswer ? undefined : cutNow())
}

/** Whether the last call got no answer, or the browser has gone offline since. */
export const useCut = (): Cut => useSyncExternalStore(subscribe, () => cut)

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}
