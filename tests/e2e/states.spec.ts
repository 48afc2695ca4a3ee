import { expect } from '@playwright/test'
import { createServer } from 'vite'
import { backendRoots } from '../../contract/endpoints.ts'
import { slugOf, stateOf, states } from '../states/states.ts'
import { dashboardCalls } from './dashboard-calls.ts'
import { sharedTest as base } from './server.ts'
import { expectState } from './show-state.ts'
import { holdCall } from './watch.ts'

/** The address of a Vite server as in `npm run dev`. `sharedServer` answers for the backend. */
const test = base.extend<object, { dev: string }>({
  dev: [
    async ({ sharedServer }, use) => {
      const proxied = { target: sharedServer.url, changeOrigin: false }
      const proxy = Object.fromEntries(backendRoots.map((root) => [`/${root}`, proxied]))
      const vite = await createServer({ server: { port: 0, hmr: false, proxy }, logLevel: 'error' })
      await vite.listen()
      const address = vite.httpServer?.address()
      if (typeof address !== 'object' || address === null) throw new Error('Vite has no port')
      await use(`http://localhost:${address.port}`)
      await vite.close()
    },
    { scope: 'worker' },
  ],
})
// One after the other, with one Vite server.
test.describe.configure({ mode: 'default' })

test('/tests/states/ shows all states during development, each also at an address of its own', {
  tag: '@all',
}, async ({ page, dev }) => {
  // Several apps load one after the other, without a build.
  test.setTimeout(300_000)
  // A small window shows few frames at once. Each frame loads some hundred files.
  await page.setViewportSize({ width: 600, height: 500 })
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(error.message))
  const letApp = await holdCall(page, '**/src/main.tsx', 'passes')
  await page.goto(`${dev}/tests/states/`)
  await expect(page.getByRole('heading', { name: 'Pieces' })).toBeVisible()
  const first = page.getByTitle('Health is being checked', { exact: true }).contentFrame()
  await expect(first.getByText('Opening this state…')).toBeVisible()
  letApp()
  // Vite bundles the dependencies when the first frame asks for them.
  await expect(first.getByText('Loading…')).toBeVisible({ timeout: 120_000 })
  // As long as a route is set, Playwright turns the browser's cache off, so each frame would load all files anew.
  await page.unrouteAll()
  await expect(page.locator('iframe')).toHaveCount(states.length)
  // Only what comes into view loads.
  expect(await page.locator('iframe[src]').count()).toBeLessThan(10)
  // tests/e2e/accessibility.spec.ts shows all of them. Here, some are enough for the frames.
  for (const name of [
    'Unsaved changes',
    'Sign out failed',
    'HubSpot callback: working',
    'Contact Support',
    'Activity: older messages fail to load',
  ]) {
    const state = stateOf(name)
    const frame = page.getByTitle(name, { exact: true })
    await frame.evaluate((element) => element.scrollIntoView())
    const scrolled = await page.evaluate(() => window.scrollY)
    const sign = await expectState(frame.contentFrame(), state)
    // The frame shows the upper end of it.
    await expect
      .poll(
        () =>
          sign.evaluate((part) => {
            const { top, height } = part.getBoundingClientRect()
            return top >= 0 && top + Math.min(height, 20) <= window.innerHeight
          }),
        name,
      )
      .toBe(true)
    expect(await page.evaluate(() => window.scrollY), name).toBe(scrolled)
  }
  // No frame took the focus.
  await expect(page.locator('body')).toBeFocused()
  await expect(page.getByRole('button', { name: /devtools/i })).toHaveCount(0)

  await page.getByRole('link', { name: 'Save failed' }).click()
  await expect(page).toHaveURL(`${dev}/tests/states/?save-failed`)
  await expect(page.locator('iframe')).toHaveCount(1)
  const message = page.frameLocator('iframe').getByText('❌ Failed to save rules, try again.')
  await expect(message).toBeInViewport({ timeout: 60_000 })
  expect(new Set(states.map(slugOf)).size).toBe(states.length)
  expect(errors).toEqual([])
})

test('the panels of Query and Router stand beside the dashboard, and each call is made once', {
  tag: '@all',
}, async ({ page, dev }) => {
  const calls: string[] = []
  page.on('request', (request) => {
    if (request.resourceType() === 'fetch') calls.push(new URL(request.url()).pathname)
  })
  await page.goto(dev)
  await expect(page.getByRole('button', { name: /query devtools/i })).toBeVisible({
    timeout: 60_000,
  })
  await expect(page.getByRole('button', { name: /router devtools/i })).toBeVisible()
  await expect(page.getByText('Connections required')).toBeVisible()
  expect(calls.toSorted()).toEqual(['/health', ...dashboardCalls].sort())
})
