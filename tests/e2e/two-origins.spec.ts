import { expect } from '@playwright/test'
import { freePort } from '../relay/postgres.ts'
import { connect, sharedTest as test, withServer } from './server.ts'
import { type serve, serveBuild } from './site.ts'

// The page is on a host of its own, as on Netlify. There, nothing answers for the backend.
test.describe.configure({ mode: 'serial' })
const backendPort = await freePort()
const backendUrl = `http://localhost:${backendPort}`
let host: Awaited<ReturnType<typeof serve>>
test.beforeAll(async () => {
  host = await serveBuild({ VITE_API_URL: backendUrl })
})
test.afterAll(() => host.close())

const settings = () => ({
  PORT: String(backendPort),
  APP_URL: host.url,
  API_URL: backendUrl,
  SERVE_DASHBOARD: 'false',
})

test('a page on another origin reaches all pages that only the backend has', {
  tag: '@all',
}, async ({ page }) => {
  await withServer(async () => {
    // Another address of the same host.
    await page.goto(`http://127.0.0.1:${host.port}`)
    await page.getByRole('link', { name: host.url }).click()
    await expect(page).toHaveURL(`${host.url}/`)
    await expect(page.getByText('do not work at this address')).toBeHidden()
    await connect(page, 'HubSpot', 'Slack')
    await page.getByLabel('Notify me when a deal is signed or closed').check()
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()

    const opened = page.waitForEvent('popup')
    await page.getByRole('link', { name: 'Open its deals' }).click()
    const deals = await opened
    await deals.getByLabel('Stage of Acme renewal').selectOption('Closed won')
    await deals.getByRole('button', { name: 'Move Acme renewal' }).click()
    await deals.getByRole('link', { name: 'See the message' }).click()
    await deals.getByRole('link', { name: 'Acme renewal' }).click()
    await expect(deals).toHaveURL(`${backendUrl}/sandbox/hubspot/deals#deal-9001`)
    await deals.getByRole('link', { name: 'Dealbell' }).click()
    await expect(deals).toHaveURL(`${host.url}/`)

    await page.goto(`${host.url}/contact`)
    const form = page.frameLocator('iframe')
    await form.getByLabel('Your name').fill('Sam')
    await form.getByLabel('E-mail address').fill('sam@example.com')
    await form.getByLabel('How can we help?').fill('Hello')
    await form.getByRole('button', { name: 'Send' }).click()
    await expect(form.getByRole('heading', { name: 'Thank you' })).toBeVisible()
  }, settings())
})
