import { setTimeout as delay } from 'node:timers/promises'

export interface Background {
  /**
   * Resolves when the task has ended its step. If a step takes too long, resolves without it: each step
   * can end at any point, and the next start repeats it.
   */
  stop(): Promise<void>
}

/**
 * Repeats a task in the background. The task returns in how many ms to repeat it, and so does `onError`
 * after an error. Neither a start nor a request waits for it.
 */
export function repeatInBackground(
  task: (signal: AbortSignal) => Promise<number>,
  {
    firstMs,
    onError,
    // A call to a provider may take longer than the server may take to stop.
    longestStopMs = 7_000,
  }: { firstMs: number; onError: (error: unknown) => number; longestStopMs?: number },
): Background {
  const stopping = new AbortController()
  const { signal } = stopping

  async function run(): Promise<void> {
    let waitMs = firstMs
    for (;;) {
      // Rejects only when it is aborted.
      await delay(waitMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      try {
        waitMs = await task(signal)
      } catch (error) {
        if (signal.aborted) return
        waitMs = onError(error)
      }
    }
  }

  const running = run()
  return {
    async stop() {
      stopping.abort()
      await waitAtMost(longestStopMs, running)
    },
  }
}

/** Waits for `work`, but not longer than this. Then the work goes on, and the wait keeps no process alive. */
export async function waitAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  await Promise.race([work, delay(ms, undefined, { ref: false })])
}
