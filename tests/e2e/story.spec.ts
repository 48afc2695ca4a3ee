import type { Page } from '@playwright/test'
import { expect } from '@playwright/test'
import { test } from './server.ts'

const service = (page: Page, name: string) => page.getByRole('listitem').filter({ hasText: name })

test('a person connects both services, ticks rules, saves, and finds it all after a restart', async ({
  page,
  server,
}) => {
  await page.goto('/')
  await expect(page.getByText('Connections required')).toBeVisible()

  for (const name of ['HubSpot', 'Slack']) {
    await page.getByRole('button', { name: `Connect ${name}`, exact: true }).click()
    await expect(page).toHaveURL(new RegExp(`/sandbox/${name.toLowerCase()}/`))
    await expect(page.getByText(/stand-in/i).first()).toBeVisible()
    await page.getByRole('button', { name: 'Allow' }).click()
    await expect(page).toHaveURL(`${server.url}/`)
    await expect(service(page, name)).toContainText('Connected')
    await expect(page.getByRole('button', { name: `Disconnect ${name}` })).toBeVisible()
  }
  await expect(page.getByText('Connections required')).toBeHidden()

  await expect(page.getByText('No notification rules defined')).toBeVisible()
  await page.getByLabel('Notify me when a deal stage changes').check()
  await page.getByLabel('Notify me when a deal is signed or closed').check()
  await expect(page.getByText('No notification rules defined')).toBeHidden()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()

  await server.stop()
  await server.start()
  await page.reload()
  await expect(page.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
  await expect(page.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
  await expect(page.getByLabel('Notify me when a deal stage changes')).toBeChecked()
  await expect(page.getByLabel('Notify me when a deal is signed or closed')).toBeChecked()
  await expect(
    page.getByRole('checkbox', { name: /moves stage without a contact/ }),
  ).not.toBeChecked()

  await page.getByRole('button', { name: 'Disconnect Slack' }).click()
  await expect(page.getByRole('button', { name: 'Connect Slack', exact: true })).toBeVisible()
  await expect(page.getByText('Connections required')).toBeVisible()
})

test('the whole story works by keyboard', { tag: '@all' }, async ({ page }) => {
  // Presses Tab until the control has the focus.
  async function tabTo(name: string | RegExp, role: 'button' | 'checkbox' | 'link') {
    const target = page.getByRole(role, { name, exact: true })
    await expect(target).toBeVisible()
    for (let stops = 0; stops < 40; stops += 1) {
      await page.keyboard.press('Tab')
      if (await target.evaluate((element) => element === document.activeElement)) return
    }
    throw new Error(`Tab never reached the ${role} ${name}`)
  }

  await page.goto('/')
  for (const name of ['HubSpot', 'Slack']) {
    await tabTo(`Connect ${name}`, 'button')
    await page.keyboard.press('Enter')
    await tabTo('Allow', 'button')
    await page.keyboard.press('Enter')
    await expect(page.getByRole('button', { name: `Disconnect ${name}` })).toBeVisible()
  }
  // After a navigation within the page, the focus is on the heading.
  await expect(page.getByRole('heading', { level: 1 })).toBeFocused()

  await tabTo('Notify me when a deal stage changes', 'checkbox')
  await page.keyboard.press('Space')
  await expect(page.getByLabel('Notify me when a deal stage changes')).toBeChecked()
  await tabTo('Save', 'button')
  await page.keyboard.press('Enter')
  await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()
  await expect(page.getByRole('button', { name: 'Save' })).toBeFocused()
})
