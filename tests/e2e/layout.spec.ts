import { expect, type Locator } from '@playwright/test'
import { stateOf } from '../states/states.ts'
import { sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'

/** Where an element is in the window. */
async function placeOf(element: Locator) {
  const box = await element.boundingBox()
  if (box === null) throw new Error('The element is not visible')
  return { ...box, right: box.x + box.width, bottom: box.y + box.height }
}

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
  await page.route('**/api/notifications/rules', (route) => route.fulfill({ status: 500 }))
  await save.click()
  await expect(page.getByText('❌ Failed to save rules, try again.')).toBeVisible()
  heights.push((await placeOf(bar)).height)
  expect(await placeOf(save)).toEqual(before)
  expect(new Set(heights).size).toBe(1)
  await stage.uncheck()
  await expect.poll(isBelow).toBe(true)
})

test('eleven rules that come soon take less room than three that can be used', async ({ page }) => {
  await page.setViewportSize({ width: 1280, height: 800 })
  await showState(page, stateOf('What each rule has sent or would have sent'))
  const roomOf = async (name: RegExp) => {
    const { width, height } = await placeOf(page.getByRole('group', { name }))
    return width * height
  }
  const soon = [/^Contacts/, /^Companies/, /^Invoices/, /^Custom/]
  const rooms = await Promise.all(soon.map(roomOf))

  expect(rooms.reduce((a, b) => a + b)).toBeLessThan(await roomOf(/^Deals/))
})

test("on a phone, a connection's button is at the right, its account below", async ({ page }) => {
  await showState(page, stateOf('Stand-ins with links'))
  for (const name of ['HubSpot', 'Slack']) {
    const row = page.getByRole('listitem').filter({ hasText: name })
    const button = await placeOf(row.getByRole('button', { name: `Disconnect ${name}` }))
    const words = row.getByRole('status').first()
    const [all, names] = [await placeOf(words), await placeOf(words.locator('.names'))]
    expect(button.y).toBeLessThan(all.bottom)
    expect(button.x).toBeGreaterThanOrEqual(all.right)
    expect(button.right).toBeCloseTo((await placeOf(row)).right, 0)
    expect(names.x).toBeCloseTo(all.x, 0)
    expect(button.height).toBeGreaterThanOrEqual(44)
  }
  const header = page.getByRole('banner')
  const height = (await placeOf(header)).height
  const menu = await placeOf(header.getByRole('button', { name: 'acme-demo.example' }))
  expect(height).toBeLessThan(60)
  expect(menu.height).toBeGreaterThanOrEqual(44)
})
