import { expect } from '@playwright/test'
import { stateOf } from '../states/states.ts'
import { openTab, sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'
import { holdCall } from './watch.ts'

test('support opens in a tab without an opener, and its form works', async ({ page }) => {
  await page.goto('/')
  const contact = await openTab(page, 'Contact Support')
  await expect(contact).toHaveURL('/contact')
  expect(await contact.evaluate(() => window.opener)).toBeNull()
  expect(await contact.locator('iframe').evaluate(({ clientHeight }) => clientHeight)).toBe(600)
  const form = contact.frameLocator('iframe')
  for (const name of ['Your name', 'E-mail address', 'How can we help?'])
    await form.getByLabel(name).fill('someone@example.test')
  await form.getByRole('button').click()
  await expect(form.getByText(/thank/i)).toBeVisible()
})

test('while the script of the next page is slow, the page says so', async ({ page }) => {
  await showState(page, stateOf('What each rule has sent or would have sent'))
  const answer = await holdCall(page, '**/activity-*.js', 'passes')
  await page.getByRole('link', { name: 'Activity' }).click()
  await expect(page.getByRole('main').getByRole('heading', { name: 'Loading…' })).toBeVisible()
  // Its place under the next page is not known yet.
  await expect(page.getByRole('contentinfo')).not.toBeInViewport()
  answer()
  // The new heading has the focus, as after every navigation.
  await expect(page.getByRole('heading', { name: 'Activity' })).toBeFocused()
})
