import { expect } from '@playwright/test'
import { createServer } from 'vite'
import { backendRoots } from '../../contract/endpoints.ts'
import { slugOf, stateOf, states } from '../states/states.ts'
import { sharedTest as base } from './server.ts'
import { expectState } from './show-state.ts'

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
  await page.goto(`${dev}/tests/states/`)
  // Vite bundles the dependencies when the first frame asks for them.
  const first = page.getByTitle('Health is being checked', { exact: true }).contentFrame()
  await expect(first.getByText('Loading…')).toBeVisible({ timeout: 120_000 })
  await expect(page.locator('iframe')).toHaveCount(states.length)
  // Only what comes into view loads.
  expect(await page.locator('iframe[src]').count()).toBeLessThan(10)
  // tests/e2e/accessibility.spec.ts shows all of them. Here, one is enough for the frames.
  const state = stateOf('Sign out failed')
  const frame = page.getByTitle(state.name, { exact: true })
  await frame.evaluate((element) => element.scrollIntoView())
  await expectState(frame.contentFrame(), state)
  // No frame took the focus.
  await expect(page.locator('body')).toBeFocused()

  await page.getByRole('link', { name: 'Save failed' }).click()
  await expect(page).toHaveURL(`${dev}/tests/states/?save-failed`)
  await expect(page.locator('iframe')).toHaveCount(1)
  const message = page.frameLocator('iframe').getByText('❌ Failed to save rules, try again.')
  await expect(message).toBeVisible({ timeout: 60_000 })
  expect(new Set(states.map(slugOf)).size).toBe(states.length)
  expect(errors).toEqual([])
})
