import '../server/database/drizzle-imports.ts'
import { afterAll, vi } from 'vitest'

// The next file of this process finds the environment and the clock as this file found them. Vitest restores only
// spies after a file, and the rest before the next test.
afterAll(() => {
  vi.unstubAllEnvs()
  vi.unstubAllGlobals()
  vi.useRealTimers()
})
