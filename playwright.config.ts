import { defineConfig } from '@playwright/test'
import { chromium, chromiumArguments } from './scripts/programs.ts'
import type { Engine } from './tests/browsers/tab.ts'

const executablePath = chromium.find()
// `npx playwright test FILE` runs all tests of the file. The workers read the environment.
if (process.argv.some((argument) => /\.spec\.ts\b/.test(argument))) process.env.TEST_ALL = '1'
const runsAll = process.env.TEST_ALL === '1'
const engines = ['chromium', 'firefox', 'webkit'] as const

export default defineConfig<object, { engine: Engine }>({
  testDir: 'tests/e2e',
  globalSetup: './tests/e2e/build.ts',
  outputDir: 'test-results',
  forbidOnly: Boolean(process.env.CI),
  // No retries: a test that passes only at its second try is broken.
  retries: 0,
  fullyParallel: true,
  // One for each processor of CI. A third one makes no run shorter, and each test a third slower.
  workers: 2,
  // These limits leave room for a busy machine. Tests wait for conditions, so they are usually
  // faster.
  timeout: 60_000,
  expect: { timeout: 20_000 },
  reporter: [['list']],
  use: {
    // No element has this attribute, because tests find elements by role and text, as users do.
    testIdAttribute: 'data-no-test-ids',
    launchOptions: {
      ...(executablePath !== undefined && { executablePath }),
      args: chromiumArguments,
    },
  },
  projects: [
    {
      name: 'chromium',
      use: { browserName: 'chromium' },
      // `npm test` leaves out the tests tagged @all.
      ...(!runsAll && { grepInvert: /@all/ }),
    },
    ...(runsAll
      ? // tests/browsers has tests of its own for each engine (decision 602).
        engines.map((engine) => ({
          name: `every-browser-${engine}`,
          testDir: 'tests/browsers',
          // Those are stories that tests/e2e plays in Chromium.
          ...(engine === 'chromium' && { grepInvert: /@not-chromium/ }),
          use: { engine },
        }))
      : []),
  ],
})
