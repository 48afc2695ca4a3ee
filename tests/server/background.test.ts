import { test } from 'vitest'
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
