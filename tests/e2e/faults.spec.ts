import { expect } from '@playwright/test'
import { connect, sharedTest as test } from './server.ts'

for (const script of ['index', 'client', 'routes']) {
  test(`the page says so when a script does not arrive, and a reload helps: ${script}`, async ({
    page,
  }) => {
    await page.route(`**/assets/${script}-*.js`, (route) => route.abort('connectionreset'))
    await page.goto('/')
    await expect(page.getByText('Something went wrong. Please try again later.')).toBeVisible()
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    await page.reload()
    await expect(page.getByRole('button', { name: 'Connect HubSpot', exact: true })).toBeVisible()
  })
}

test('a held Enter disconnects, but does not press the Connect that appears', async ({ page }) => {
  await page.goto('/')
  await connect(page, 'Slack')
  const visits: string[] = []
  page.on('request', (request) => visits.push(new URL(request.url()).pathname))
  await page.getByRole('button', { name: 'Disconnect Slack' }).focus()
  await page.keyboard.down('Enter')
  // By its exact name: 'Disconnect Slack' contains the name 'connect Slack'.
  await expect(page.getByRole('button', { name: 'Connect Slack', exact: true })).toBeFocused()
  for (let repeat = 0; repeat < 3; repeat += 1) await page.keyboard.down('Enter')
  await page.keyboard.up('Enter')
  // A navigation would have started by now.
  await page.evaluate(() => fetch('/health'))
  expect(visits).not.toContain('/api/slack/auth')

  await page.keyboard.press('Enter')
  await expect(page.getByRole('button', { name: 'Allow' })).toBeVisible()
})
