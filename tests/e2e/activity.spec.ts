import { expect } from '@playwright/test'
import { sentItem } from '../msw/activity.ts'
import { createBackend } from '../msw/handlers.ts'
import { sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'

// The positions of /activity. tests/components/activity.test.tsx has the rest.

// The page is in English, whatever the browser prefers.
test.use({ locale: 'de-DE' })

const minuteMs = 60_000
/** Noon: just after midnight, the messages of a few minutes would have a heading of a second day among them. */
const now = new Date().setHours(12, 0, 0, 0)
const message = (id: string, at: number) => sentItem(id, { at: new Date(at).toISOString() })

test('new messages move nothing; a button says how many came, and leads to them', async ({
  page,
}) => {
  const items = Array.from({ length: 25 }, (_, n) => message(`${n + 1}`, now - n * minuteMs))
  const { handlers } = createBackend({ features: ['activity'], activity: { items } })
  await page.clock.install({ time: now })
  await showState(page, {
    name: 'activity',
    address: '/activity',
    backend: () => handlers,
    shows: 'Last 14 days',
  })
  await expect(page.getByText('Deal 25')).toBeAttached()
  await expect(page.getByRole('time').first()).toHaveText(/^12:00\s+PM$/)
  await page.evaluate(() => window.scrollTo({ top: 1200, behavior: 'instant' }))
  const link = page.getByRole('link', { name: 'Deal 12' })
  await link.focus()
  const top = async () => (await link.boundingBox())?.y ?? Number.NaN
  const read = await top()
  expect(read).toBeGreaterThan(0)
  items.unshift(message('tomorrow', now + 24 * 60 * minuteMs), message('new', now))
  await page.clock.runFor(5000)
  const button = page.getByRole('button', { name: '2 new messages above' })
  await expect(button).toBeInViewport()
  expect(await top()).toBeCloseTo(read, 0)
  await expect(link).toBeFocused()
  await button.click()
  await expect(page.getByText('Deal tomorrow')).toBeInViewport()
  await expect(page.getByRole('heading', { name: 'Messages' })).toBeFocused()
  await expect(button).toHaveCount(0)
})
