import { expect, test } from '@playwright/test'
import { launch } from '../server/program.ts'
import { button, rule, saveRules } from './server.ts'

test('npm run dev -- --mock shows the whole dashboard without a server, and a reload keeps what the user did', {
  tag: '@all',
}, async ({ page }) => {
  // Vite bundles the dependencies first, without a build.
  test.setTimeout(180_000)
  const mock = launch(['scripts/dev.ts', '--mock'], { DEV_PORT: '0' })
  const closed = rule(page, 'a deal is signed or closed')
  const failed = page.getByRole('listitem').filter({ hasText: 'Globex expansion' })
  try {
    const url = await mock.said(/The dashboard is at (\S+)\. /)
    await page.goto(url)
    await expect(page.getByText('Mock: nothing leaves this page.')).toBeVisible()
    await expect(page.getByText('Connections required')).toBeVisible({ timeout: 120_000 })
    for (const name of ['HubSpot', 'Slack']) {
      await button(page, `Connect ${name}`).click()
      await expect(button(page, `Disconnect ${name}`)).toBeVisible()
    }
    await saveRules(page, 'a deal is signed or closed')

    await page.getByRole('link', { name: 'Activity' }).click()
    await button(page, /^Send again: Globex expansion/).click()
    await expect(failed).toContainText('Sent to #sales-floor')

    await page.reload()
    await expect(failed).toContainText('Sent to #sales-floor')
    await page.goto(url)
    await expect(closed).toBeChecked()
    const other = await page.request.get(`${url}/api/pipelines`)
    expect(other.status()).toBe(501)
    expect(await other.text()).toContain('The mock does not answer GET /api/pipelines.')
  } finally {
    await mock.kill()
  }
})
