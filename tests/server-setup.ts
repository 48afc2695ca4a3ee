import '../server/database/drizzle-imports.ts'
import { afterAll, vi } from 'vitest'

// The default of one second is too short for a busy machine.
const { waitFor: waitShortly } = vi
vi.waitFor = (callback, options = { timeout: 20_000 }) => waitShortly(callback, options)

// The next file of this process finds the environment and the clock as this file found them. Vitest restores only
// spies after a file, and the rest before the next test.
afterAll(() => {
  vi.unstubAllEnvs()
  vi.unstubAllGlobals()
  vi.useRealTimers()
})
