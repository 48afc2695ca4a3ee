import { expect, type Locator, type Page } from '@playwright/test'
import { expectFine } from './axe.ts'
import { test as base, button, openTab, rows, rule, saveRules, withServices } from './server.ts'

/** Connects as Ada, who sees all deals. */
async function connectPipedrive(page: Page) {
  await button(page, 'Connect Pipedrive').click()
  await expect(page.getByLabel('You are')).toHaveValue('6001')
  await expectFine(page)
  await button(page, 'Allow').click()
  await expect(button(page, 'Disconnect Pipedrive')).toBeVisible()
}

// The other stories are of HubSpot, with Slack, Teams and Discord.
const test = base.extend({
  server: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
    async ({}, use) => await withServices(use, { crm: 'Pipedrive', chat: 'Google Chat' }),
    { scope: 'test', timeout: 60_000 },
  ],
})
test.use({ viewport: { width: 320, height: 640 }, colorScheme: 'dark' })

test('a deal of Pipedrive is moved, won, lost and reopened, and Google Chat hears of each', {
  tag: '@all',
}, async ({ page }) => {
  // Some steps wait for checks of the connection.
  test.setTimeout(120_000)
  await page.goto('/')
  await connectPipedrive(page)
  const account = page.getByRole('list').getByText('acme-stand-in.pipedrive.com')
  await expect(account).toBeVisible()
  await expect(rule(page, 'a deal stage changes')).toHaveAccessibleDescription(
    /^Would have sent 4 messages in the last 7 days/,
  )
  await button(page, 'Connect Google Chat').click()
  await button(page, 'Use the stand-in').click()
  await saveRules(page, 'a deal stage changes', 'a deal is signed or closed')

  const deals = await openTab(page, 'Open the Pipedrive deals')
  await expectFine(deals)
  await deals.getByLabel('Stage of Acme renewal').selectOption('Negotiation')
  await button(deals, 'Move Acme renewal').click()
  for (const change of [
    'Won of Globex pilot',
    'Lost of Initech expansion',
    'Reopen of Globex pilot',
  ]) {
    await button(deals, change).click()
  }
  const room = await openTab(page, 'Open sales (stand-in)')
  const messages = [
    ['Acme renewal moved to Negotiation', 'Proposal → Negotiation · €12,500 · Owner: Ada Admin'],
    ['Globex pilot was won', 'Demo → Won · €4,800 · Owner: Ben Berg'],
    ['Initech expansion was lost', 'Negotiation → Lost · €73,000.50 · Owner: Ada Admin'],
    ['Globex pilot moved to Demo', 'Won → Demo · €4,800 · Owner: Ben Berg'],
  ] as const
  for (const [headline, facts] of messages) {
    const message = room.getByRole('listitem').filter({ hasText: headline })
    await expect(message).toContainText(facts)
  }
  await room.getByRole('link', { name: 'Acme renewal' }).click()
  await expect(room).toHaveURL(/\/sandbox\/pipedrive\/deals#deal-1$/)

  await page.getByRole('link', { name: 'Activity' }).click()
  for (const name of ['Sent 4', 'Skipped 0']) {
    await expect(page.getByRole('link', { name })).toBeVisible()
  }
  await expect(rows(page)).toHaveText([
    /^Globex pilot.*Won.*Demo/,
    /^Initech expansion.*Negotiation.*Lost/,
    /^Globex pilot.*Demo.*Won/,
    /^Acme renewal.*Proposal.*Negotiation/,
  ])

  const webhooks = deals.getByText(/^Ada Admin: /)
  await expect(webhooks).toHaveText('Ada Admin: one webhook')
  await page.goto('/')
  await uninstallAndInstall(page, deals)
  await button(page, 'Disconnect Pipedrive').click()
  await expect(button(page, 'Connect Pipedrive')).toBeVisible()
  await expect(async () => {
    await deals.reload()
    await expect(webhooks).toHaveText('Ada Admin: no webhook', { timeout: 1 })
  }).toPass()
})

/** Installs and uninstalls from Pipedrive's side, without an OAuth state. */
async function uninstallAndInstall(page: Page, deals: Page) {
  await button(deals, 'Uninstall for Ada Admin').click()
  const why = page.getByText(/^Not connected since .*: Pipedrive says that the access was revoked/)
  await reloadUntil(page, why)
  await button(deals, 'Install for Ada Admin from the Marketplace').click()
  await expect(deals.getByRole('heading', { name: 'Connect Pipedrive' })).toBeVisible()
  await expect(
    deals.getByText(/It was begun at Pipedrive, not in Dealbell\. To finish it, press Connect/),
  ).toBeVisible()
  await connectPipedrive(deals)
  await deals.goto('/sandbox/pipedrive/deals')

  await button(deals, 'Use up').click()
  // Two checks try to read the webhook.
  const { origin } = new URL(page.url())
  const app = 'dealbell-stand-in-pipedrive:stand-in-pipedrive-secret'
  const late = page.getByText(/^Changes in Pipedrive may arrive only after midnight/)
  await expect(async () => {
    const told = await page.request.delete(`${origin}/pipedrive/callback`, {
      headers: { Authorization: `Basic ${Buffer.from(app).toString('base64')}` },
      data: { client_id: 'dealbell-stand-in-pipedrive', company_id: 5300001, user_id: 6001 },
    })
    await expect(told).toBeOK()
    await page.reload()
    await expect(late).toBeVisible({ timeout: 1_500 })
  }).toPass()
  await button(deals, 'Renew').click()
  await button(page, 'Disconnect Pipedrive').click()
  await connectPipedrive(page)
  await expect(late).toBeHidden()
}

async function reloadUntil(page: Page, text: Locator) {
  await expect(async () => {
    await page.reload()
    await expect(text).toBeVisible({ timeout: 1_500 })
  }).toPass()
}
