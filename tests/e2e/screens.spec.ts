import { expect } from '@playwright/test'
import { test } from './server.ts'

// Takes pictures for people, in test-results/screens/. The only assertion is that each screen fits its width.
const folder = 'test-results/screens'

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [320, 1280]) {
    test.describe(`${colorScheme}, ${width} px`, () => {
      const height = width === 320 ? 640 : 900
      test.use({ colorScheme, viewport: { width, height } })

      test('the main screens', { tag: '@all' }, async ({ page }) => {
        const shoot = async (name: string) => {
          const { scrollWidth, scrollHeight } = await page.evaluate(() => ({
            scrollWidth: document.documentElement.scrollWidth,
            scrollHeight: document.documentElement.scrollHeight,
          }))
          expect(scrollWidth).toBeLessThanOrEqual(width)
          // Enlarge the window: a full-page picture would show the sticky bar with Save in mid-page.
          await page.setViewportSize({ width, height: scrollHeight })
          await page.screenshot({ path: `${folder}/${name}-${colorScheme}-${width}.png` })
          await page.setViewportSize({ width, height })
        }

        await page.goto('/')
        await expect(page.getByText('Connections required')).toBeVisible()
        await shoot('1-first-visit')
        await page.getByRole('button', { name: 'Connect HubSpot', exact: true }).click()
        await expect(page.getByRole('button', { name: 'Allow' })).toBeVisible()
        await shoot('2-consent')
        await page.getByRole('button', { name: 'Allow' }).click()
        await expect(page.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
        await page.getByRole('button', { name: 'Save' }).click()
        await expect(page.getByText(/^❌ Please connect both/)).toBeVisible()
        await shoot('3-save-refused')
        await page.getByRole('button', { name: 'Connect Slack', exact: true }).click()
        await page.getByRole('button', { name: 'Allow' }).click()
        await expect(page.getByRole('button', { name: 'Disconnect Slack' })).toBeVisible()
        await page.getByLabel('Notify me when a deal stage changes').check()
        await shoot('4-unsaved')
        await page.getByRole('button', { name: 'Save' }).click()
        await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()
        await shoot('5-saved')
        await page.goto('/contact')
        await expect(page.frameLocator('iframe').getByRole('button')).toBeVisible()
        await shoot('6-contact')
        await page.goto('/hubspot/callback')
        await expect(page.getByText(/^HubSpot connection failed/)).toBeVisible()
        await shoot('7-callback-failed')
        await page.goto('/connect/hubspot')
        await expect(
          page.getByRole('button', { name: 'Connect HubSpot', exact: true }),
        ).toBeVisible()
        await shoot('8-connect-again')
        await page.goto('/no/such/page')
        await expect(page.getByText('Something went wrong.')).toBeVisible()
        await shoot('9-unknown-address')
        await page.route('**/health', (route) => route.abort())
        await page.goto('/')
        await expect(page.getByText('Backend service is unavailable.')).toBeVisible()
        await shoot('10-service-unavailable')
      })
    })
  }
}
