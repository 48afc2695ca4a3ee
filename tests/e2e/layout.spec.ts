import { expect, type Locator } from '@playwright/test'
import { stateOf } from '../states/states.ts'
import { sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'

/** Where an element is in the window. */
const placeOf = (element: Locator) =>
  element.evaluate((box) => box.getBoundingClientRect().toJSON())

test.use({ viewport: { width: 390, height: 664 }, hasTouch: true })

test('on a phone, Save sticks only while it is needed, and moves nothing', async ({ page }) => {
  await showState(page, stateOf('What each rule has sent or would have sent'))
  const save = page.getByRole('button', { name: /^Sav/ })
  const bar = save.locator('..')
  const isBelow = async () => (await placeOf(bar)).y > 664
  expect(await isBelow()).toBe(true)
  // The whole row ticks, also below its text.
  const note = page.getByText('Would have sent 31 messages').first()
  const stage = page.getByRole('checkbox', { name: /deal stage changes/ })
  await note.scrollIntoViewIfNeeded()
  const { x, y } = await placeOf(note)
  await page.touchscreen.tap(x + 5, y + 5)
  await expect(stage).toBeChecked()
  expect(await isBelow()).toBe(false)
  const before = await placeOf(save)
  const heights = [(await placeOf(bar)).height]
  await page.route('**/api/notifications/rules', (route) =>
    route.request().method() === 'POST' ? route.fulfill({ status: 500 }) : route.fallback(),
  )
  await save.click()
  await expect(page.getByText('❌ Failed to save rules, try again.')).toBeVisible()
  heights.push((await placeOf(bar)).height)
  expect(await placeOf(save)).toEqual(before)
  expect(new Set(heights).size).toBe(1)
  await stage.uncheck()
  await expect.poll(isBelow).toBe(true)
})
