import { expect } from '@playwright/test'
import { stateOf } from '../states/states.ts'
import { sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'
import { holdCall } from './watch.ts'

test('the code is used once, leaves the address at once, and Back does not find it', {
  tag: '@all',
}, async ({ page }) => {
  const callbacks: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('/api/slack/callback')) callbacks.push(request.url())
  })
  const answer = await holdCall(page, '**/api/slack/callback*', 'passes')

  await page.goto('/')
  await page.getByRole('button', { name: 'Connect Slack', exact: true }).click()
  await page.getByRole('button', { name: 'Allow' }).click()
  await expect(page.getByText('Handling Slack OAuth Callback...')).toBeVisible()
  await expect(page).toHaveURL('/slack/callback')
  answer()
  await expect(page.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()

  // Back leads to the consent page, not to the callback.
  await page.goBack()
  await expect(page).toHaveURL(/\/sandbox\/slack\//)
  await page.goForward()
  await expect(page).toHaveURL('/')
  await expect(page.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  expect(callbacks).toHaveLength(1)
})

test('support opens in a tab without an opener, and its form works', async ({ page, context }) => {
  await page.goto('/')
  const opened = context.waitForEvent('page')
  await page.getByRole('link', { name: 'Contact Support' }).click()
  const contact = await opened
  await expect(contact).toHaveURL('/contact')
  expect(await contact.evaluate(() => window.opener)).toBeNull()
  await expect(contact.getByText("Fill out the form and we'll get back to you.")).toBeVisible()

  const frame = contact.locator('iframe')
  expect(await frame.evaluate((element) => element.clientHeight)).toBe(600)
  await contact.setViewportSize({ width: 320, height: 640 })
  expect(await contact.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(
    320,
  )

  const form = contact.frameLocator('iframe')
  for (const box of await form.getByRole('textbox').all()) await box.fill('someone@example.test')
  await form.getByRole('button').click()
  await expect(form.getByText(/thank/i)).toBeVisible()
})

const withActivity = stateOf('What each rule has sent or would have sent')
const scriptOfActivity = '**/activity-*.js'

test('while the script of the next page is slow, the page says so', async ({ page }) => {
  await showState(page, withActivity)
  const answer = await holdCall(page, scriptOfActivity, 'passes')
  await page.getByRole('link', { name: 'Activity' }).click()
  await expect(page.getByRole('main').getByRole('heading', { name: 'Loading…' })).toBeVisible()
  // Its place under the next page is not known yet.
  await expect(page.getByRole('contentinfo')).not.toBeInViewport()
  answer()
  // The new heading has the focus, as after every navigation.
  await expect(page.getByRole('heading', { name: 'Activity' })).toBeFocused()
})
