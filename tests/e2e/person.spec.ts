import { expect } from '@playwright/test'
import { button, connect, rule, setUp, test } from './server.ts'

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
      if (persisted) sessionStorage.setItem('was persisted', 'yes')
    }),
  )
  const page = await context.newPage()
  const tick = rule(page, 'a deal stage changes')
  const goAndComeBack = async (meanwhile?: () => Promise<void>) => {
    await button(page, 'Connect HubSpot').click()
    await expect(button(page, 'Allow')).toBeVisible()
    await meanwhile?.()
    // A page out of the cache has no load event to wait for.
    await page.goBack({ waitUntil: 'commit' })
    // It loads itself again.
    await expect(async () => {
      const removed = await page.evaluate(() => {
        const was = sessionStorage.getItem('was persisted')
        sessionStorage.removeItem('was persisted')
        return was
      })
      expect(removed).toBe('yes')
    }).toPass()
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
  await expect(rule(page, 'a deal is signed or closed')).toBeChecked()
  await expect(button(page, 'Disconnect HubSpot')).toBeVisible()
  await expect(tick).toBeChecked()
  await expect(page.getByText('Unsaved changes')).toBeVisible()
  await other.getByRole('banner').getByRole('button').click()
  await button(other, 'Sign out of this browser').click()
  await expect(button(page, 'Connect HubSpot')).toBeVisible()
  await caching.close()
})
