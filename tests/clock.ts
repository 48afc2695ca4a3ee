import { act } from '@testing-library/react'
import { onTestFinished, vi } from 'vitest'

/** Stops the clock, for tests of a promised time. From here on use `pass` and `settle`, never findBy or waitFor. */
export function stopClock(): void {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'],
  })
  onTestFinished(() => {
    vi.useRealTimers()
  })
}

/** Lets `ms` milliseconds pass on the stopped clock, and what they set off arrive. */
export async function pass(ms: number): Promise<void> {
  await act(() => vi.advanceTimersByTimeAsync(ms))
  await settle()
}

/** Lets answers arrive and be rendered, while the clock stands still. */
export async function settle(): Promise<void> {
  await act(async () => {
    for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve))
  })
}
