import { expect } from '@playwright/test'
import { connect, sharedTest as test } from './server.ts'

const apology = 'Something went wrong. Please try again later.'

for (const [script, address, heading] of [
  ['index', '/', 'Connections'],
  ['client', '/', 'Connections'],
  ['contact', '/contact', 'Contact Support'],
] as const) {
  test(`the page says so when a script does not arrive, and a reload helps: ${script}`, async ({
    page,
  }) => {
    await page.route(`**/assets/${script}-*.js`, (route) => route.abort('connectionreset'))
    await page.goto(address)
    await expect(page.getByText(apology)).toBeVisible()
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    await page.reload()
    await expect(page.getByRole('heading', { name: heading })).toBeVisible()
  })
}

test.describe('without JavaScript', () => {
  test.use({ javaScriptEnabled: false })
  test('the page says that it needs it, and not that it loads', async ({ page }) => {
    await page.goto('/')
    await expect(page.locator('noscript p')).toBeVisible()
    await expect(page.getByText('Loading…')).toBeHidden()
  })
})

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
