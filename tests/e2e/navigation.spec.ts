import type { Page } from '@playwright/test'
import { expect } from '@playwright/test'
import { sharedTest, test } from './server.ts'

test('the code is used once, leaves the address at once, and Back does not find it', async ({
  page,
}) => {
  const callbacks: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('/api/hubspot/callback')) callbacks.push(request.url())
  })
  let answer = () => {}
  const held = new Promise<void>((resolve) => {
    answer = resolve
  })
  await page.route('**/api/hubspot/callback*', async (route) => {
    await held
    await route.continue()
  })

  await page.goto('/')
  await page.getByRole('button', { name: 'Connect HubSpot', exact: true }).click()
  await page.getByRole('button', { name: 'Allow' }).click()
  await expect(page.getByText('Handling HubSpot OAuth Callback...')).toBeVisible()
  await expect(page).toHaveURL('/hubspot/callback')
  answer()
  await expect(page.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()

  // Back leads to the consent page, not to the callback.
  await page.goBack()
  await expect(page).toHaveURL(/\/sandbox\/hubspot\//)
  await page.goForward()
  await expect(page).toHaveURL('/')
  await expect(page.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
  expect(callbacks).toHaveLength(1)
})

sharedTest(
  'a refused code never appears in the message, and the page leads on to connect again',
  async ({ page }) => {
    const logs: string[] = []
    page.on('console', (message) => logs.push(message.text()))
    await page.goto('/hubspot/callback?code=SECRET-CODE&state=SECRET-STATE')
    await expect(page.getByRole('alert')).toHaveText(
      'HubSpot connection failed: The server answered with an error (400)',
    )
    expect(await page.content()).not.toContain('SECRET')
    await expect(page).toHaveURL('/connect/hubspot')
    expect(logs.filter((line) => line.includes('SECRET'))).toEqual([])
  },
)

sharedTest(
  'a service connected in another tab shows here at once, and the ticks stay',
  async ({ page, context }) => {
    const button = (tab: Page, name: string) => tab.getByRole('button', { name, exact: true })
    // Both tabs show the same person from here on.
    await page.goto('/')
    await button(page, 'Connect Slack').click()
    await button(page, 'Allow').click()
    await button(page, 'Disconnect Slack').click()
    await expect(button(page, 'Connect Slack')).toBeVisible()
    await page.getByLabel('Notify me when a deal stage changes').check()

    const other = await context.newPage()
    await other.goto('/')
    await button(other, 'Connect Slack').click()
    await button(other, 'Allow').click()
    await expect(button(other, 'Disconnect Slack')).toBeVisible()
    await expect(button(page, 'Disconnect Slack')).toBeVisible()
    await expect(page.getByLabel('Notify me when a deal stage changes')).toBeChecked()
  },
)

sharedTest(
  'support opens in its own tab without an opener, and its form works in its frame',
  async ({ page, context }) => {
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
  },
)

sharedTest('an unknown address offers the way back', async ({ page }) => {
  await page.goto('/no/such/page')
  await expect(page.getByText('Something went wrong. Please try again later.')).toBeVisible()
  await page.getByRole('link', { name: 'Back to the dashboard' }).click()
  await expect(page.getByRole('heading', { name: 'Connections' })).toBeVisible()
})
