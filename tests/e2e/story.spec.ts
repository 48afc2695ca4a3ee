import { expect, type Page } from '@playwright/test'
import { expectFine } from './axe.ts'
import { button, connect, openTab, rows, rule, setUp, test } from './server.ts'

const row = (page: Page, deal: string) => rows(page).filter({ hasText: deal })
const deals = '/sandbox/hubspot/deals'
const slack = '/sandbox/slack'

// tests/browsers plays with a mouse on a wide screen.
test.describe('on a phone, by touch', () => {
  // The page is in English, whatever the browser prefers.
  test.use({
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
    locale: 'de-DE',
  })
  // axe looks at each of several pages.
  test.describe.configure({ timeout: 180_000 })

  async function move(page: Page, deal: string, stage: string) {
    await page.getByLabel(`Stage of ${deal}`).selectOption(stage)
    await button(page, `Move ${deal}`).tap()
    const row = page.getByRole('listitem').filter({ hasText: deal })
    await expect(row.getByRole('status')).toHaveText('Reported to Dealbell. Look at the chat.')
  }

  test('a first visit leads from the start page alone to a message in Slack', async ({ page }) => {
    await page.goto('/')
    await expect(page.getByText('Connections required')).toBeVisible()
    await expect(page.getByText('stand-in on this server')).toHaveCount(2)
    await expectFine(page)
    await rule(page, 'a deal stage changes').tap()
    await button(page, 'Save').tap()
    await expect(page.getByText(/^❌ Please connect both/)).toBeInViewport()

    await button(page, 'Connect HubSpot').tap()
    await expect(button(page, 'Allow')).toBeVisible()
    await expectFine(page)
    await button(page, 'Allow').tap()
    // What the rules would have sent, before any of them is saved.
    await expect(rule(page, 'a deal stage changes')).toHaveAccessibleDescription(
      /^Would have sent 11 messages in the last 7 days/,
    )
    await button(page, /^Show an example: when a deal is signed/).tap()
    await expect(page.getByText('Initech expansion was won')).toBeVisible()
    await button(page, 'Connect Slack').tap()
    await expect(button(page, 'Allow')).toBeVisible()
    await expectFine(page)
    await button(page, 'Allow').tap()

    // The tick came along, without a question.
    await expect(page.getByText('Unsaved changes')).toBeVisible()
    await expect(rule(page, 'a deal stage changes')).toBeChecked()
    const saving = Promise.withResolvers<void>()
    await page.route('**/api/notifications/rules', async (route) => {
      await saving.promise
      await route.continue()
    })
    await button(page, 'Save').tap()
    await expect(button(page, 'Saving…')).toBeDisabled()
    saving.resolve()
    await expect(page.getByText('✅ Rules saved successfully!')).toBeInViewport()
    await expect(page.getByRole('link', { name: 'Open #sales-floor' })).toBeVisible()
    await expectFine(page)
    await button(page, 'Send a test message').tap()
    await expect(page.getByText('Sent to #sales-floor.')).toBeVisible()

    const tab = await openTab(page, 'Open the HubSpot deals', 'tap')
    await move(tab, 'Acme renewal', 'Closed lost')
    await expectFine(tab)
    await tab.getByRole('link', { name: 'Look at the chat' }).tap()
    await expect(tab.getByRole('heading', { name: '#sales-floor' })).toBeAttached()
    await expect(tab.getByText('Acme renewal')).toBeInViewport()
    await expectFine(tab)
  })

  test('every day, a person sees what was sent, finds one message, sends it again, and signs out', {
    tag: '@all',
  }, async ({ page, server }) => {
    const move = async (deal: number, stage: string) => {
      const form = { change: 'stage', stage }
      await expect(await page.request.post(`${deals}/${deal}`, { form })).toBeOK()
    }
    await setUp(page)
    for (const stage of ['qualifiedtobuy', 'presentationscheduled', 'contractsent']) {
      for (const deal of [9001, 9002, 9003, 9004]) await move(deal, stage)
    }
    await move(9001, 'closedwon')
    await page.goto('/activity')
    await expect(page.getByRole('link', { name: 'Sent 1' })).toBeVisible()
    await page.request.post(`${slack}/channels/C0SALES001`, { form: { change: 'archive' } })
    await move(9002, 'closedlost')
    await button(page, /new messages? above$/).tap()
    await expect(row(page, 'Globex pilot').first()).toContainText('Not sent')
    // The stand-ins forget what was moved and archived.
    await server.stop()
    await server.start()
    await page.goto('/')
    await connect(page, 'Slack')

    // Another day.
    await expect(rule(page, 'a deal is signed or closed')).toBeChecked()
    await page.getByRole('link', { name: 'Activity' }).tap()
    for (const name of ['Sent 1', 'Failed 1', 'Skipped 12']) {
      await expect(page.getByRole('link', { name })).toBeVisible()
    }
    await expectFine(page)

    await page.getByRole('link', { name: 'Contact Support' }).scrollIntoViewIfNeeded()
    await move(9003, 'closedlost')
    await button(page, '1 new message above').tap()
    await expect(row(page, 'Initech expansion')).toContainText('Sent to #sales-floor')
    await expect(row(page, 'Initech expansion')).toBeInViewport()

    await page.getByLabel('Rule').selectOption('When a deal is signed or closed (won/lost)')
    await expect(rows(page)).toHaveCount(3)
    await page.getByLabel('Search by deal name').fill('globex')
    await expect(rows(page)).toHaveCount(1)
    const day = page.getByRole('slider', { name: 'Day' })
    const showDay = page.getByRole('link', { name: /^Show this day/ })
    await day.tap({ position: { x: 5, y: 60 } })
    await showDay.tap()
    await expect(page.getByText('No message matches.')).toBeVisible()
    await expect(day).toHaveAttribute('aria-valuetext', /: 0 sent, 0 failed$/)
    await expectFine(page)
    await day.press('End')
    await showDay.tap()
    await button(page, 'Send again: Globex pilot').tap()
    await expect(row(page, 'Globex pilot')).toContainText('Sent to #sales-floor')

    await page.getByRole('banner').getByRole('button').tap()
    await expectFine(page)
    await button(page, 'Sign out of this browser').tap()
    const line = page.getByText('Signed out. Connect HubSpot to find your settings again.')
    await expect(line).toBeFocused()
    await expectFine(page)
  })

  test('when the channel is archived, a person sees what broke and what was missed, and sends it to another channel', {
    tag: '@all',
  }, async ({ page }) => {
    await setUp(page)
    await page.goto(`${slack}/channels/C0SALES001`)
    await button(page, 'Archive #sales-floor').tap()
    await expect(button(page, 'Unarchive #sales-floor')).toBeVisible()
    await page.getByRole('link', { name: 'Deals', exact: true }).tap()
    await move(page, 'Initech expansion', 'Closed lost')
    await move(page, 'Acme renewal', 'Closed won')
    await page.goto('/activity')
    await expect(page.getByRole('link', { name: 'Failed 2' })).toBeVisible()

    await page.goto('/')
    const why = page.getByText(
      /^Not connected since today, \S+ [AP]M: Slack says that the channel is archived\. Connect again, or choose another channel\.$/,
    )
    await expect(why).toHaveCSS('color', 'rgb(185, 28, 28)')
    await expect(page.getByText('2 messages failed while disconnected.')).toBeVisible()
    await expectFine(page)
    await page.getByRole('link', { name: 'See the failed ones' }).tap()
    const first = row(page, 'Initech expansion')
    await expect(first).toContainText(/Closed won.*Closed lost/)
    await expect(first).toContainText('When a deal is signed or closed')
    // Nothing was read of the second one.
    await expect(row(page, 'Deal 9001')).toBeVisible()
    await expectFine(page)

    await button(page, /^Connect Slack, to send again: Deal 9001/).tap()
    await page.getByLabel('Channel for the messages').selectOption('#deals')
    await button(page, 'Allow').tap()
    await expect(page.getByText('2 messages failed while Slack was disconnected.')).toBeVisible()
    await expectFine(page)
    await button(page, 'Send all again').tap()
    await expect(page.getByText('2 messages will be sent again.')).toBeVisible()
    const chat = await openTab(page, 'Open #deals', 'tap')
    for (const message of ['Initech expansion was lost', 'Acme renewal was won']) {
      await expect(chat.getByText(message)).toBeVisible()
    }
  })
})
