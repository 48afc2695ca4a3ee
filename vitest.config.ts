import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { newSeed } from './tests/seed.ts'

// This test makes a build. `npm test` runs it.
const slow = ['tests/server/build.test.ts']
// These tests take longer, need programs that npm ci does not install, or use new random values at
// each run. Only `npm run test:all` runs them.
const testAllOnly = [
  'tests/build/build.test.ts',
  'tests/build/extending.test.ts',
  'tests/build/hosting.test.ts',
  'tests/build/production-install.test.ts',
  'tests/build/release.test.ts',
  'tests/components/hostile-strings.test.tsx',
  'tests/relay/alone.test.ts',
  'tests/relay/catch-up.test.ts',
  'tests/relay/crash.test.ts',
  'tests/relay/digest.test.ts',
  'tests/relay/growth.test.ts',
  'tests/relay/locks.test.ts',
  'tests/relay/long-history.test.ts',
  'tests/relay/malformed.test.ts',
  'tests/relay/mention.test.ts',
  'tests/relay/pgbouncer.test.ts',
  'tests/relay/pipedrive.test.ts',
  'tests/relay/preview.test.ts',
  'tests/relay/processes.test.ts',
  'tests/relay/tries.test.ts',
  'tests/relay/upgrade.test.ts',
  'tests/server/callback-orders.test.ts',
  'tests/server/cleanup.test.ts',
  'tests/server/damaged-folder.test.ts',
  'tests/server/data.test.ts',
  'tests/server/dev.test.ts',
  'tests/server/doctor.test.ts',
  'tests/server/full-disk.test.ts',
  'tests/server/memory.test.ts',
  'tests/server/migrate.test.ts',
  'tests/server/power-cut.test.ts',
  'tests/server/process.test.ts',
  'tests/server/setting-problems.test.ts',
  'tests/server/subscription.test.ts',
  'tests/simulation/crowd.test.ts',
]
const runsAll = process.env.TEST_ALL === '1'
const left = {
  none: [...slow, ...testAllOnly],
  main: testAllOnly,
  all: [],
}[runsAll ? 'all' : process.env.TEST_MAIN === '1' ? 'main' : 'none']
// `npx vitest run FILE` runs each file that it names, with all of its tests.
const isNamed = (file: string) => process.argv.some((argument) => argument.endsWith(file))
const exclude = left.filter((file) => !isNamed(file))
if (testAllOnly.some(isNamed)) process.env.TEST_ALL = '1'

/** The files that take longest. Vitest knows that only after a run, and would start these small files last. */
const longest = ['tests/simulation/simulation.test.ts', 'tests/build/extending.test.ts']

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) =>
      longest.some((file) => moduleId.endsWith(file)) ? 0 : 1
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}

const dashboard = { environment: './tests/environment.ts', setupFiles: ['tests/setup.ts'] }
const server = {
  environment: 'node',
  // The files that one process runs share its modules. Loading those for each file took a quarter of the processor
  // time.
  isolate: false,
  globalSetup: ['tests/database-setup.ts'],
  setupFiles: ['tests/server-setup.ts'],
}

export default defineConfig({
  // The tests do not depend on a developer's .env.
  envDir: false,
  test: {
    // One more than there are processors, because many tests wait more than they compute.
    maxWorkers: availableParallelism() + 1,
    sequence: {
      sequencer: LongestFirst,
      // No test may need another one before it. Vitest prints the seed.
      ...(runsAll && { shuffle: { tests: true }, seed: newSeed(7) }),
    },
    restoreMocks: true,
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: 'dashboard',
          ...dashboard,
          include: ['tests/{api,components}/**/*.test.{ts,tsx}'],
          exclude,
          // Room for a busy machine, as below. A test on a stopped clock that ends at its limit disturbs the next ones.
          testTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          // Server and relay are one project, so that the global setup prepares databases once.
          name: 'server',
          ...server,
          include: ['tests/{build,conventions,contract,relay,server,simulation}/**/*.test.ts'],
          exclude,
          // These limits leave room for a busy machine, because several tests start processes.
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
})
