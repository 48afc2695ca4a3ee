import { expect, type Page } from '@playwright/test'
import { connect, test } from './server.ts'

test('a person sees whether notifications work, from the first preview to a message sent again', async ({
  page,
  context,
}) => {
  await page.goto('/')
  await connect(page, 'HubSpot', 'Slack')

  // What each rule would have sent for changes from before anybody used Dealbell, before any rule is saved.
  const closed = page.getByLabel('Notify me when a deal is signed or closed')
  for (const [rule, count] of [
    ['a deal is signed or closed', '1 message'],
    ['a deal stage changes', '11 messages'],
    ['a deal moves stage without', '2 messages'],
  ]) {
    await expect(page.getByLabel(`Notify me when ${rule}`)).toHaveAccessibleDescription(
      new RegExp(`^Would have sent ${count} in the last 7 days`),
    )
  }
  await page.getByRole('button', { name: 'Show an example: when a deal is signed' }).click()
  await expect(page.getByText('🎉 Initech expansion was won (€73,000.50)')).toBeVisible()

  await page.getByRole('button', { name: 'Send a test message' }).click()
  await expect(page.getByText('Sent to #sales-floor')).toBeVisible()
  const slack = await context.newPage()
  await slack.goto('/sandbox/slack/channels/C0SALES001')
  const messages = slack.getByRole('list', { name: 'Messages' })
  await expect(messages).toContainText('Test message')

  await page.getByRole('link', { name: 'Activity' }).click()
  // Each message has the time of its change.
  const items = page.getByRole('listitem').filter({ has: page.getByRole('time') })
  await expect(items).toHaveCount(1)
  await expect(items.first()).toContainText('Test message')
  await expect(items.first()).toContainText('Sent to #sales-floor')

  await page.getByRole('link', { name: 'Dealbell' }).click()
  await closed.check()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()

  // One deal's message arrives, and another deal's message fails. The activity shows both without a reload.
  await page.getByRole('link', { name: 'Activity' }).click()
  await expect(items).toHaveCount(1)
  const hubspot = await context.newPage()
  await hubspot.goto('/sandbox/hubspot/deals')
  await move(hubspot, 'Acme renewal', 'Closed won')
  await expect(messages).toContainText('Acme renewal was won')
  await slack.getByRole('button', { name: 'Archive #sales-floor' }).click()
  await expect(slack.getByRole('button', { name: 'Unarchive #sales-floor' })).toBeVisible()
  await move(hubspot, 'Initech expansion', 'Closed lost')
  const initech = items.filter({ hasText: 'Initech expansion' })
  await expect(initech).toContainText('Not sent: the channel is archived. Connect Slack again.')
  const acme = items.filter({ hasText: 'Acme renewal' })
  await expect(acme).toContainText('Sent to #sales-floor')
  await expect(acme).toContainText('Closed won')
  await expect(acme.getByRole('link', { name: 'Acme renewal' })).toHaveAttribute(
    'href',
    /\/sandbox\/hubspot/,
  )

  // A new page, because an open one asks only every 15 seconds.
  await page.goto('/')
  await expect(page.getByText(/1 message has failed since/)).toBeVisible()
  await page.getByRole('button', { name: 'Connect Slack', exact: true }).click()
  await page.getByRole('combobox').selectOption({ label: '#deals' })
  await page.getByRole('button', { name: 'Allow' }).click()
  await expect(page.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  await expect(closed).toHaveAccessibleDescription(/^Sent once in 14 days/)

  await page.getByRole('link', { name: 'Activity' }).click()
  await initech.getByRole('button', { name: /Send again/ }).click()
  await slack.goto('/sandbox/slack/channels/C0DEALS001')
  await expect(messages).toContainText('Initech expansion was lost')
  // A reload asks at once.
  await page.reload()
  await expect(initech).toContainText('Sent to #deals')
})

async function move(page: Page, deal: string, stage: string) {
  await page.getByLabel(`Stage of ${deal}`).selectOption(stage)
  await page.getByRole('button', { name: `Move ${deal}` }).click()
  const row = page.getByRole('listitem').filter({ hasText: deal })
  await expect(row.getByRole('status')).toHaveText('Reported to Dealbell. See the message.')
}
