import { expect } from '@playwright/test'
import { test } from './server.ts'

test('a deal that moves in the stand-in HubSpot makes a message in the stand-in Slack', async ({
  page,
  server,
}) => {
  await page.goto('/')
  for (const name of ['HubSpot', 'Slack']) {
    await page.getByRole('button', { name: `Connect ${name}`, exact: true }).click()
    await page.getByRole('button', { name: 'Allow' }).click()
    await expect(page.getByRole('button', { name: `Disconnect ${name}` })).toBeVisible()
  }
  await expect(page.getByText('Connected · acme-stand-in.example')).toBeVisible()
  await page.getByLabel('Notify me when a deal is signed or closed').check()
  await page.getByRole('checkbox', { name: /moves stage without a contact/ }).check()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()

  async function move(deal: string, stage: string) {
    await page.goto(`${server.url}/sandbox/hubspot/deals`)
    await page.getByLabel(`Stage of ${deal}`).selectOption(stage)
    await page.getByRole('button', { name: `Move ${deal}` }).click()
    await expect(page.getByRole('listitem').filter({ hasText: deal })).toContainText(stage)
  }
  await move('Acme renewal', 'Closed won')
  await move('Initech expansion', 'Closed lost')
  // This deal has neither a contact nor a company.
  await move('Umbrella onboarding', 'Contract sent')
  // This deal has both, and no rule is ticked for a stage change alone.
  await move('Globex pilot', 'Contract sent')

  await page.goto(`${server.url}/sandbox/slack`)
  await page.getByRole('link', { name: '#sales-floor' }).click()
  const messages = page.getByRole('list', { name: 'Messages' }).getByRole('listitem')
  // The page reloads itself. The relay checks a deal without associations twice, so its message comes later.
  await expect(messages).toHaveCount(3, { timeout: 20_000 })
  await expect(messages.nth(2)).toContainText('Acme renewal was won')
  await expect(messages.nth(2)).toContainText('Appointment scheduled → Closed won')
  await expect(messages.nth(2)).toContainText('€12,500')
  await expect(messages.nth(1)).toContainText('Initech expansion was lost')
  await expect(messages.nth(0)).toContainText('Umbrella onboarding moved to Contract sent')
  await messages.nth(2).getByRole('link', { name: 'Acme renewal' }).click()
  await expect(page.getByRole('heading', { name: 'Deals' })).toBeVisible()
})
