import { expect, type Page } from '@playwright/test'
import { StandInTokens } from '../../stand-ins/tokens.ts'
import { sharedTest as test } from './server.ts'

// A phone far away from the server.
const timeZone = 'Pacific/Kiritimati'
test.use({ timezoneId: timeZone, locale: 'en-GB', viewport: { width: 390, height: 664 } })

/** Posts to #random as an app does. */
async function say(page: Page, text: string) {
  const tokens = new StandInTokens('xoxb-stand-in-', 'stand-in-slack-secret')
  const token = tokens.issue({ grant: 'test', use: 'access', endsAt: null })
  const address = `/sandbox/slack/services/T0STANDIN1/C0RANDOM01/${token}`
  expect(await (await page.request.post(address, { data: { text } })).text()).toBe('ok')
}

test('the stand-in Slack reads like a chat, and keeps the place of a person', async ({ page }) => {
  const message = (n: number) => page.getByText(`message ${n}.`)
  for (let n = 0; n < 30; n++) await say(page, `message ${n}.`)
  // It opens the channel of the newest message.
  await page.goto('/sandbox/slack')
  await expect(page.getByRole('heading', { name: '#random' })).toBeAttached()
  await expect(message(29)).toBeInViewport()
  const avatar = page.getByRole('listitem').last().getByText('D', { exact: true })
  await expect(avatar).toBeInViewport()
  const time = page.getByRole('listitem').last().getByRole('time')
  const at = new Date((await time.getAttribute('datetime')) ?? '')
  await expect(time).toHaveText(at.toLocaleTimeString('en-GB', { timeStyle: 'short', timeZone }))

  // At the end of the list, a person sees what is new. Elsewhere, nothing moves.
  await say(page, 'message 30.')
  await expect(message(30)).toBeInViewport()
  await message(2).scrollIntoViewIfNeeded()
  await say(page, 'message 31.')
  await expect(message(31)).toBeAttached()
  await expect(message(2)).toBeInViewport()
})

test('a person moves a deal, stays at it, and goes from there to the message', async ({ page }) => {
  await page.goto('/sandbox/hubspot/deals')
  const row = page.getByRole('listitem').filter({ hasText: 'Acme renewal' })
  const move = row.getByRole('button', { name: 'Move Acme renewal' })
  const placeInWindow = () => row.evaluate((deal) => Math.round(deal.getBoundingClientRect().top))
  await move.scrollIntoViewIfNeeded()
  const place = await placeInWindow()
  expect(place).toBeGreaterThan(100)
  await move.click()
  await expect(page).toHaveURL(/#deal-9001$/)
  await expect(row.getByRole('status')).toHaveText(
    'The deal is in this stage already. Choose another one.',
  )
  await row.getByLabel('Stage of Acme renewal').selectOption('Closed won')
  await move.click()
  await expect(row.getByRole('status')).toHaveText('Reported to Dealbell. See the message.')
  expect(await placeInWindow()).toBe(place)
  // A change of its amount leaves the deal's details open.
  await row.getByText('More').click()
  await row.getByLabel('Amount in EUR of Acme renewal').fill('7')
  await row.getByRole('button', { name: 'Change the amount of Acme renewal' }).click()
  await expect(row).toContainText('€7')
  await expect(row.getByRole('button', { name: 'Remove contact of Acme renewal' })).toBeVisible()
  await page.getByRole('navigation').getByRole('link', { name: 'Slack' }).click()
  await expect(page).toHaveURL(/\/sandbox\/slack\/channels\//)
})
