import { expect, type Page } from '@playwright/test'
import { sentItem } from '../msw/activity.ts'
import { createBackend } from '../msw/handlers.ts'
import { sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'

const dayMs = 24 * 60 * 60 * 1000
const daily = Array.from({ length: 14 }, (_, n) => ({
  date: new Date(Date.UTC(2026, 10, 18) + n * dayMs).toISOString().slice(0, 10),
  sent: 14 - n,
  failed: n,
}))
const items = Array.from({ length: 30 }, (_, n) => sentItem(`${n}`))

const open = (page: Page) =>
  showState(page, {
    name: 'Two pages of messages',
    address: '/activity',
    backend: () =>
      createBackend({
        features: ['activity', 'activity-search'],
        activity: { items, summary: { daily } },
      }).handlers,
    shows: ['Load older', 'Highest day: 14 messages'],
  })

test('to load the last page moves the focus, and not what the reader sees', async ({ page }) => {
  await page.setViewportSize({ width: 1280, height: 800 })
  await open(page)
  await page.getByRole('button', { name: 'Load older' }).focus()
  const before = await page.evaluate(() => window.scrollY)
  await page.keyboard.press('Enter')
  const end = page.getByText('There are no older messages.')
  await expect(end.locator('..')).toBeFocused()
  expect(await page.evaluate(() => window.scrollY)).toBe(before)
  // From there, the keyboard goes on.
  await page.keyboard.press('Tab')
  await expect(page.getByRole('link', { name: 'Contact Support' })).toBeFocused()
})

for (const width of [320, 1280]) {
  test(`at ${width} px, the chart tells each day's figures by touch, pointer and keyboard`, async ({
    page,
  }) => {
    await page.setViewportSize({ width, height: 800 })
    await open(page)
    const slider = page.getByRole('slider', { name: 'Day' })
    const box = await slider.boundingBox()
    const [chosen, hint] = ['Nov 19: 13 sent, 1 failed', 'Dec 1: 1 sent, 13 failed']
    const dayWidth = (box?.width ?? 0) / daily.length
    for (const position of [0.1, 0.9, 1.1, 6.9, 7.1, 12.9, 13.1, 13.9]) {
      await slider.click({ position: { x: position * dayWidth, y: 60 } })
      await expect(slider).toHaveValue(`${Math.floor(position)}`)
    }
    await page.keyboard.press('Home')
    await page.keyboard.press('ArrowRight')
    await expect(page.getByText(chosen)).toBeVisible()
    await slider.hover({ position: { x: 13.5 * dayWidth, y: 60 } })
    await expect(page.getByText(hint)).toBeVisible()
    await expect(page.getByText(chosen)).toBeVisible()
    await page.getByRole('link', { name: 'Show this day: Nov 19' }).click()
    await expect(page).toHaveURL('/activity?day=2026-11-19')
    await expect(page.getByText('No message matches.')).toBeVisible()
  })
}
