import { expect, test } from 'vitest'
import { repeatInBackground } from '../../server/background.ts'

const never = new Promise<never>(() => {})

test('a stop does not wait for a step that takes too long', async () => {
  const { promise: started, resolve } = Promise.withResolvers<void>()
  const background = repeatInBackground(
    () => {
      resolve()
      return never
    },
    { firstMs: 0, onError: () => 0, longestStopMs: 10 },
  )
  await started
  await background.stop()
})

test('a stop waits for the step under way, and its error is not reported', async () => {
  const errors: unknown[] = []
  const { promise: started, resolve } = Promise.withResolvers<void>()
  let ended = false
  const background = repeatInBackground(
    async (signal) => {
      resolve()
      await new Promise((stopped) => signal.addEventListener('abort', stopped))
      ended = true
      throw signal.reason
    },
    { firstMs: 0, onError: (error) => errors.push(error), longestStopMs: 60_000 },
  )
  await started
  await background.stop()
  expect(ended).toBe(true)
  expect(errors).toEqual([])
})
