import type { Page } from '@playwright/test'
import { expect } from '@playwright/test'
import { sharedTest, test } from './server.ts'

const rulesPath = '**/api/notifications/rules'
const stageRule = 'Notify me when a deal stage changes'

async function connect(page: Page, ...names: string[]) {
  for (const name of names) {
    await page.getByRole('button', { name: `Connect ${name}`, exact: true }).click()
    await page.getByRole('button', { name: 'Allow' }).click()
    await expect(page.getByRole('button', { name: `Disconnect ${name}` })).toBeVisible()
  }
}

/**
 * Opens the dashboard with both services connected. Only Slack really is: the stand-in HubSpot's user
 * would share his rules with every other test on this server.
 */
async function openConnected(page: Page) {
  await page.route('**/api/hubspot/status', (route) => route.fulfill({ json: { connected: true } }))
  await page.goto('/')
  await connect(page, 'Slack')
}

/** Lists the paths of the requests with a method, as they leave the page. */
function listen(page: Page, method: string): string[] {
  const sent: string[] = []
  page.on('request', (request) => {
    if (request.method() === method) sent.push(new URL(request.url()).pathname)
  })
  return sent
}

sharedTest(
  'while the backend is away the page says so, and recovers by itself',
  async ({ page }) => {
    const isDashboardCall = /\/(health|api\/)/
    await page.route(isDashboardCall, (route) => route.abort('connectionrefused'))
    await page.goto('/')
    await expect(page.getByRole('heading', { name: 'Service Unavailable' })).toBeVisible()
    await expect(page.getByText('Backend service is unavailable.')).toBeVisible()
    await expect(page.getByText('Need Help?')).toBeHidden()

    await page.unroute(isDashboardCall)
    await expect(page.getByRole('heading', { name: 'Connections' })).toBeVisible()
    await expect(page.getByText('Need Help?')).toBeVisible()
  },
)

for (const script of ['index', 'client', 'routes']) {
  sharedTest(
    `the page says so when a script does not arrive, and a reload helps: ${script}`,
    async ({ page }) => {
      await page.route(`**/assets/${script}-*.js`, (route) => route.abort('connectionreset'))
      await page.goto('/')
      await expect(page.getByText('Something went wrong. Please try again later.')).toBeVisible()
      await page.unrouteAll({ behavior: 'ignoreErrors' })
      await page.reload()
      await expect(page.getByRole('button', { name: 'Connect HubSpot', exact: true })).toBeVisible()
    },
  )
}

test('a save that a killed server never answers keeps the ticks, and works after the restart', async ({
  page,
  server,
}) => {
  await page.goto('/')
  await connect(page, 'HubSpot', 'Slack')
  await page.getByLabel(stageRule).check()
  await server.stop('SIGKILL')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('❌ Failed to save rules, try again.')).toBeVisible()
  await expect(page.getByLabel(stageRule)).toBeChecked()
  await expect(page.getByRole('button', { name: 'Save' })).toBeFocused()

  await server.start()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()
})

sharedTest(
  'a save while offline fails at once, and the page does not send it later',
  async ({ page, context }) => {
    await openConnected(page)
    await page.getByLabel(stageRule).check()
    await context.setOffline(true)
    await page.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByText('❌ Failed to save rules, try again.')).toBeVisible()

    const posts = listen(page, 'POST')
    const statusAsked = page.waitForResponse('**/api/slack/status')
    await context.setOffline(false)
    await statusAsked
    expect(posts).toEqual([])
    await expect(page.getByLabel(stageRule)).toBeChecked()
  },
)

sharedTest(
  'a double click saves once and disconnects once, however slow the answer',
  async ({ page }) => {
    await openConnected(page)
    await page.getByLabel(stageRule).check()

    const posts = listen(page, 'POST')
    let answer = () => {}
    const held = new Promise<void>((resolve) => {
      answer = resolve
    })
    await page.route(rulesPath, async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      await held
      // The server knows of no connections here, so it would refuse.
      await route.fulfill({ status: 204 })
    })
    await page.getByRole('button', { name: 'Save' }).dblclick()
    await expect(page.getByRole('button', { name: 'Saving…' })).toBeDisabled()
    // A tick that changes during the save is kept, and the message does not claim that it was saved.
    await page.getByRole('checkbox', { name: /moves stage without a contact/ }).check()
    answer()
    await expect(page.getByText('Unsaved changes')).toBeVisible()
    await expect(page.getByRole('button', { name: 'Save' })).toBeEnabled()
    await expect(page.getByText('✅')).toBeHidden()
    await expect(
      page.getByRole('checkbox', { name: /moves stage without a contact/ }),
    ).toBeChecked()
    expect(posts).toEqual(['/api/notifications/rules'])

    const deletes = listen(page, 'DELETE')
    await page.getByRole('button', { name: 'Disconnect Slack' }).dblclick({ delay: 0 })
    await expect(page.getByText('Not connected')).toBeVisible()
    expect(deletes).toEqual(['/api/slack/disconnect'])
  },
)

sharedTest(
  'a held Enter disconnects, but does not press the Connect that then appears',
  async ({ page }) => {
    await page.goto('/')
    await connect(page, 'Slack')
    const visits = listen(page, 'GET')
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
  },
)

sharedTest('leaving the page with unsaved ticks asks first', async ({ page }) => {
  await page.goto('/')
  await page.getByLabel(stageRule).check()

  const asked: string[] = []
  page.once('dialog', (dialog) => {
    asked.push(dialog.type())
    void dialog.dismiss()
  })
  await page.getByRole('button', { name: 'Connect HubSpot', exact: true }).click()
  await expect.poll(() => asked).toEqual(['beforeunload'])
  await expect(page.getByLabel(stageRule)).toBeChecked()
  await expect(page).toHaveURL('/')

  page.once('dialog', (dialog) => {
    asked.push(dialog.type())
    void dialog.accept()
  })
  await page.getByRole('button', { name: 'Connect HubSpot', exact: true }).click()
  await expect(page.getByRole('button', { name: 'Allow' })).toBeVisible()
  expect(asked).toEqual(['beforeunload', 'beforeunload'])
})
