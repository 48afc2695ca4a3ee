import { expect, type Page } from '@playwright/test'
import { stateOf } from '../states/states.ts'
import { connect, setUp, sharedTest, test } from './server.ts'
import { showState } from './show-state.ts'

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

// tests/components/person.test.tsx has the other ways in which a tab learns of another person.
test('a page that comes out of the back-forward cache shows the person of now with the ticks of nobody, and hears the other tabs again', {
  tag: '@all',
}, async ({ playwright, launchOptions, browser, server }) => {
  // Ann has both services and a rule, in a browser of her own.
  const ann = await browser.newPage({ baseURL: server.url })
  await setUp(ann)
  await ann.close()
  const caching = await playwright.chromium.launch({
    ...launchOptions,
    ignoreDefaultArgs: ['--disable-back-forward-cache'],
  })
  const context = await caching.newContext({ baseURL: server.url })
  await context.addInitScript(() =>
    window.addEventListener('pageshow', ({ persisted }) => {
      document.documentElement.title = `persisted is ${persisted}`
    }),
  )
  const page = await context.newPage()
  const tick = page.getByLabel('Notify me when a deal stage changes')
  const goAndComeBack = async (meanwhile?: () => Promise<void>) => {
    await button(page, 'Connect HubSpot').click()
    await expect(page.getByRole('button', { name: 'Allow' })).toBeVisible()
    await meanwhile?.()
    // The page does not load, so there is no load event to wait for.
    await page.goBack({ waitUntil: 'commit' })
    await expect(page.locator('html')).toHaveAttribute('title', 'persisted is true')
  }
  await page.goto('/')
  await tick.check()
  await goAndComeBack()
  await expect(tick).toBeChecked()
  await connect(page, 'Slack')
  await expect(tick).toBeChecked()

  const other = await context.newPage()
  await other.goto('/')
  await goAndComeBack(() => connect(other, 'HubSpot'))
  await expect(page.getByLabel('Notify me when a deal is signed or closed')).toBeChecked()
  await expect(button(page, 'Disconnect HubSpot')).toBeVisible()
  await expect(tick).toBeChecked()
  await expect(page.getByText('Unsaved changes')).toBeVisible()
  await other.getByRole('banner').getByRole('button').click()
  await button(other, 'Sign out of this browser').click()
  await expect(button(page, 'Connect HubSpot')).toBeVisible()
  await caching.close()
})

sharedTest(
  'the account menu opens below its button, and closes when the person looks elsewhere',
  async ({ page }) => {
    await showState(page, stateOf('Signed out of all other browsers'))
    const account = button(page, 'Account')
    const item = button(page, 'Sign out of this browser')
    // A click on an item closes the menu, and the focus goes back.
    await expect(item).toBeHidden()
    await expect(account).toBeFocused()
    await page.keyboard.press('Enter')
    await expect(item).toBeInViewport({ ratio: 1 })
    for (const width of [320, 640, 800, 1280]) {
      await page.setViewportSize({ width, height: 700 })
      const [{ x, y }, menu] = await page.evaluate(() => {
        const { right, bottom } =
          document.querySelector('[popovertarget]')?.getBoundingClientRect() ?? new DOMRect()
        const menu = document.querySelector('[popover]')?.getBoundingClientRect() ?? new DOMRect()
        return [
          { x: right, y: bottom },
          { x: menu.right, y: menu.top },
        ] as const
      })
      expect(Math.abs(menu.x - x), `${width} px`).toBeLessThan(20)
      expect(menu.y - y, `${width} px`).toBeGreaterThanOrEqual(0)
      expect(menu.y - y, `${width} px`).toBeLessThan(12)
    }
    await page.keyboard.press('Tab')
    await expect(item).toBeFocused()
    await page.keyboard.press('Escape')
    await expect(item).toBeHidden()
    await expect(account).toBeFocused()
    for (const leave of [
      () => page.getByRole('heading', { level: 1 }).click(),
      () => account.click(),
      async () => {
        for (let stop = 0; stop < 3; stop += 1) await page.keyboard.press('Tab')
      },
    ]) {
      await account.click()
      await expect(item).toBeVisible()
      await leave()
      await expect(item).toBeHidden()
    }
  },
)

for (const [width, height] of [
  [1280, 720],
  [390, 844],
] as const) {
  test.describe(`at ${width} px`, () => {
    test.use({ viewport: { width, height }, hasTouch: true })

    sharedTest('Save by click, tap and Enter leaves the page where it is', async ({ page }) => {
      // Playwright's own click and press scroll the button into view before.
      const middle = async () => {
        const box = await button(page, 'Save').boundingBox()
        if (box === null) throw new Error('The button is not shown.')
        return [box.x + box.width / 2, box.y + box.height / 2] as const
      }
      const focus = () =>
        button(page, 'Save').evaluate((save) => save.focus({ preventScroll: true }))
      const ways: Record<string, () => Promise<void>> = {
        click: async () => page.mouse.click(...(await middle())),
        tap: async () => page.touchscreen.tap(...(await middle())),
        enter: async () => focus().then(() => page.keyboard.press('Enter')),
      }
      for (const [name, save] of Object.entries(ways)) {
        await showState(page, stateOf('Both connected, two rules'))
        await page.getByRole('checkbox', { name: /moves stage without a contact/ }).click()
        // The button is at the bottom of the window, and its place in the page is further down.
        await page.evaluate(() => window.scrollTo({ top: 120, behavior: 'instant' }))
        await save()
        await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()
        await expect(button(page, 'Save')).toBeFocused()
        expect(await page.evaluate(() => window.scrollY), name).toBe(120)
      }
    })
  })
}
