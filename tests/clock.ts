import { act } from '@testing-library/react'
import { onTestFinished, vi } from 'vitest'

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

/** Lets answers arrive and render. No timer runs on a stopped clock. */
export async function settle(): Promise<void> {
  await act(async () => {
    for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve))
  })
}
