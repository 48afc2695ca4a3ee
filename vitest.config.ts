import { defineConfig } from 'vitest/config'

// These take minutes, need more than npm ci brings, or draw new random values at each run.
// Only `npm run test:all` runs them.
const testAllOnly = [
  'tests/build/hosting.test.ts',
  'tests/build/production-install.test.ts',
  'tests/relay/{crash,chaos}-*.test.ts',
  'tests/relay/acknowledgements.test.ts',
]
const exclude = process.env.TEST_ALL === '1' ? [] : testAllOnly

export default defineConfig({
  // The tests do not depend on a developer's .env.
  envDir: false,
  test: {
    // Many tests wait more than they compute.
    maxWorkers: '100%',
    restoreMocks: true,
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: 'dashboard',
          environment: './tests/environment.ts',
          include: ['tests/{api,components}/**/*.test.{ts,tsx}'],
          exclude,
          setupFiles: ['tests/setup.ts'],
          testTimeout: 20_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'server',
          environment: 'node',
          include: ['tests/{build,conventions,contract,server}/**/*.test.ts'],
          exclude,
          testTimeout: 20_000,
          hookTimeout: 30_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'relay',
          environment: 'node',
          include: ['tests/relay/**/*.test.ts'],
          exclude,
          globalSetup: ['tests/relay/postgres.ts'],
          // Ten kills and recoveries of a process take their time, and more on a busy machine.
          testTimeout: 300_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
})
