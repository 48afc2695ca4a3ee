import { defineConfig } from '@playwright/test'
import { findChromium } from './scripts/ensure-chromium.ts'

const executablePath = findChromium()

export default defineConfig({
  testDir: 'tests/e2e',
  globalSetup: './tests/e2e/build.ts',
  outputDir: 'test-results',
  forbidOnly: !!process.env.CI,
  // A test that passes on a second try is broken; a time alone, below, may be another at the next try.
  retries: 0,
  fullyParallel: true,
  workers: 2,
  // Room for a machine that does other things too; no test waits for time to pass, but for a frame to be drawn.
  timeout: 60_000,
  expect: { timeout: 20_000 },
  reporter: [['list']],
  use: {
    // For whoever looks at it: recording takes its time, and nobody sees what CI leaves behind.
    trace: process.env.CI ? 'off' : 'retain-on-failure',
    // Links, buttons and texts are what a person finds them by.
    testIdAttribute: 'data-no-test-ids',
    launchOptions: {
      ...(executablePath !== undefined && { executablePath }),
      args: [
        ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--no-first-run',
        // A camera to ask for, so that a refusal is one.
        '--use-fake-device-for-media-stream',
      ],
    },
  },
  projects: [
    { name: 'chromium', use: { browserName: 'chromium' }, grepInvert: /@alone/ },
    // A time is measured: everything else has ended, and nothing of the browser is recorded.
    {
      name: 'alone',
      use: { browserName: 'chromium', trace: 'off' },
      grep: /@alone/,
      dependencies: ['chromium'],
      workers: 1,
      // Not even a quiet machine is quiet all the time.
      retries: 2,
    },
  ],
})
