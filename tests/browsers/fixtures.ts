import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test as base, expect } from '@playwright/test'
import { chromium, firefox, webkit } from '../../scripts/programs.ts'
import { withServer } from '../e2e/server.ts'
import { freePort } from '../relay/postgres.ts'
import { launchChromium } from './chromium.ts'
import { launchFirefox } from './firefox.ts'
import { Front } from './front.ts'
import { Page } from './page.ts'
import type { Browser, Engine, Tab } from './tab.ts'
import { launchWebkit } from './webkit.ts'

/** Starts an engine; undefined if this machine does not have it. */
const launch = {
  chromium: () => {
    const path = chromium.find()
    return path === undefined ? undefined : launchChromium(path)
  },
  firefox: (home) => {
    const path = firefox.find()
    return path === undefined ? undefined : launchFirefox(path, home)
  },
  webkit: (home) => {
    const programs = webkit.find()
    return programs === undefined ? undefined : launchWebkit(programs, home)
  },
} satisfies Record<Engine, (home: string) => Promise<Browser> | undefined>

/**
 * Each test has a real server, a front that counts what arrives, and a tab without cookies and
 * cache. A violation of the policy fails the test.
 */
export const test = base.extend<
  { tab: Tab; front: Front; person: Page },
  { engine: Engine; running: Browser | undefined; sharedFront: Front }
>({
  engine: ['chromium', { option: true, scope: 'worker' }],
  running: [
    async ({ engine }, use) => {
      const home = await mkdtemp(join(tmpdir(), 'dealbell-browser-'))
      const browser = await launch[engine](home)
      await use(browser)
      await browser?.close()
      await rm(home, { recursive: true, force: true, maxRetries: 5 })
    },
    { scope: 'worker', timeout: 60_000 },
  ],
  sharedFront: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
    async ({}, use) => await withFront(use),
    { scope: 'worker', timeout: 60_000 },
  ],
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
  front: async ({}, use) => await withFront(use),
  tab: async ({ running, engine }, use) => {
    test.skip(running === undefined, `This machine does not have ${engine}.`)
    if (running === undefined) return
    const tab = await running.newTab()
    await use(tab)
    await tab.close()
  },
  // The tab comes first: without an engine, no server starts.
  person: async ({ tab, front }, use) => {
    front.forget()
    await use(new Page(tab, front.url))
    expect(front.violations, 'violations of the policy').toEqual([])
  },
})

/** For tests that never connect HubSpot, as in tests/e2e/server.ts: they share one server. */
export const sharedTest = test.extend({
  front: async ({ sharedFront }, use) => await use(sharedFront),
})

/** Runs a real server behind a front while `use` runs. */
async function withFront(use: (front: Front) => Promise<void>): Promise<void> {
  const port = await freePort()
  const front = await Front.start(port)
  const env = { PORT: String(port), HOST: '127.0.0.1', APP_URL: front.url }
  await withServer(() => use(front), env)
  front.close()
}
