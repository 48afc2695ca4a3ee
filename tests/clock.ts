import { act } from '@testing-library/react'
import { onTestFinished, vi } from 'vitest'
import { traffic } from './msw/server.ts'

/** Stops the clock until the test ends. From here on use `pass` and `settle`: findBy and waitFor would hang. */
export function stopClock(): void {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'],
  })
  onTestFinished(() => {
    vi.useRealTimers()
  })
}

/** Advances the stopped clock by `ms` milliseconds, then settles. */
export async function pass(ms: number): Promise<void> {
  await act(() => vi.advanceTimersByTimeAsync(ms))
  await settle()
}

// That of the real clock, also when the test has stopped it.
const { setTimeout } = globalThis

/**
 * Waits until the backend has answered all calls that no test holds, and the page has shown the answers and makes no
 * other call. No timer runs on a stopped clock.
 */
export const settle = () => quiet(() => traffic.unanswered.size === 0)

/** Waits until the page makes no other call, whatever is still unanswered. */
export const callsEnd = () => quiet(() => true)

async function quiet(isAnswered: () => boolean): Promise<void> {
  // An answer is read and shown in several turns. Each call begins the count again.
  for (let quietTurns = 0; quietTurns < 5; quietTurns++) {
    const { calls } = traffic
    await act(() => new Promise<void>((resolve) => setTimeout(resolve)))
    if (!isAnswered() || traffic.calls > calls) quietTurns = -1
  }
}
