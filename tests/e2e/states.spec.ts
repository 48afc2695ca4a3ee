import { expect } from '@playwright/test'
import { createServer } from 'vite'
import { stateOf, states } from '../states/states.ts'
import { sharedTest as test } from './server.ts'
import { expectState } from './show-state.ts'

test('/tests/states/ shows all states during development, each also at an address of its own', {
  tag: '@all',
}, async ({ page }) => {
  // Several apps load one after the other, without a build.
  test.setTimeout(300_000)
  const vite = await createServer({ server: { port: 0, hmr: false }, logLevel: 'error' })
  await vite.listen()
  const [gallery] = vite.resolvedUrls?.local ?? []
  // A small window shows few frames at once. Each frame loads some hundred files.
  await page.setViewportSize({ width: 600, height: 500 })
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(error.message))
  await page.goto(`${gallery}tests/states/`)
  // Vite bundles the dependencies when the first frame asks for them.
  const first = page.getByTitle('Health is being checked', { exact: true }).contentFrame()
  await expect(first.getByText('Loading…')).toBeVisible({ timeout: 120_000 })
  await expect(page.locator('iframe')).toHaveCount(states.length)
  // tests/e2e/accessibility.spec.ts shows all of them. Here, one is enough for the frames.
  const state = stateOf('Sign out failed')
  const frame = page.getByTitle(state.name, { exact: true })
  await frame.evaluate((element) => element.scrollIntoView())
  await expectState(frame.contentFrame(), state)

  await page.getByRole('link', { name: 'Save failed' }).click()
  await expect(page).toHaveURL(`${gallery}tests/states/?save-failed`)
  await expect(page.locator('iframe')).toHaveCount(1)
  const message = page.frameLocator('iframe').getByText('❌ Failed to save rules, try again.')
  await expect(message).toBeVisible({ timeout: 60_000 })
  expect(errors).toEqual([])
  await vite.close()
})
