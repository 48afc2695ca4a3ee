import { expect, type Page } from '@playwright/test'
import { HttpResponse, http, type RequestHandler } from 'msw'
import type { ActivityItem } from '../../contract/features/activity.ts'
import { sentItem } from '../msw/activity.ts'
import { createBackend } from '../msw/handlers.ts'
import { stateOf } from '../states/states.ts'
import { sharedTest as test } from './server.ts'
import { colourOf, showState } from './show-state.ts'

// What /activity does with positions, sizes and colours. tests/components/activity.test.tsx has the rest.

// The page is in English, whatever the browser prefers.
test.use({ locale: 'de-DE' })

const minuteMs = 60_000
const refreshMs = 5000
/** Noon: just after midnight, the messages of a few minutes would have a heading of a second day among them. */
const now = new Date().setHours(12, 0, 0, 0)

const message = (id: string, at: number, more: Partial<ActivityItem> = {}) =>
  sentItem(id, { at: new Date(at).toISOString(), ...more })

const many = (count: number) =>
  Array.from({ length: count }, (_, n) => message(`${n + 1}`, now - n * minuteMs))

/** Opens /activity. Returns the list of the backend, which a test may change. */
async function open(page: Page, items: ActivityItem[], ...before: RequestHandler[]) {
  const { handlers, state } = createBackend({ features: ['activity'], activity: { items } })
  await page.clock.install({ time: now })
  await showState(page, {
    name: 'activity',
    address: '/activity',
    backend: () => [...before, ...handlers],
    shows: 'Last 14 days',
  })
  return state.activity.items
}

const scrollTo = (page: Page, y: number) =>
  page.evaluate((top) => window.scrollTo({ top, behavior: 'instant' }), y)

/** Where the row of a deal is in the window, in pixels. */
const topOf = async (page: Page, name: string) =>
  (await page.getByRole('listitem').filter({ hasText: name }).boundingBox())?.y ?? Number.NaN

test('new messages move nothing; a button says how many came, and leads to them', async ({
  page,
}) => {
  const items = await open(page, many(25))
  await expect(page.getByText('Deal 25')).toBeAttached()
  await expect(page.getByRole('time').first()).toHaveText(/^12:00\s+PM$/)
  await scrollTo(page, 1200)
  const link = page.getByRole('link', { name: 'Deal 12' })
  await link.focus()
  const read = await topOf(page, 'Deal 12')
  expect(read).toBeGreaterThan(0)
  items.unshift(message('tomorrow', now + 24 * 60 * minuteMs), message('new', now))
  await page.clock.runFor(refreshMs)
  const button = page.getByRole('button', { name: '2 new messages above' })
  await expect(button).toBeInViewport()
  expect(await topOf(page, 'Deal 12')).toBeCloseTo(read, 0)
  await expect(link).toBeFocused()
  await button.click()
  await expect(page.getByText('Deal tomorrow')).toBeInViewport()
  await expect(page.getByRole('heading', { name: 'Messages' })).toBeFocused()
  await expect(button).toHaveCount(0)
})

test('older messages appear below; position and focus stay', { tag: '@all' }, async ({ page }) => {
  await open(page, many(60))
  const button = page.getByRole('button', { name: 'Load older' })
  await button.focus()
  await page.keyboard.press('End')
  const read = await topOf(page, 'Deal 25')
  expect(read).toBeGreaterThan(0)
  await page.keyboard.press('Enter')
  await expect(page.getByText('Deal 50')).toBeAttached()
  expect(await topOf(page, 'Deal 25')).toBeCloseTo(read, 0)
  await expect(page.getByText('Deal 26')).toBeInViewport()
  await expect(button).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(page.getByText('There are no older messages.')).toBeAttached()
  // The next Tab goes on from there.
  await page.keyboard.press('Tab')
  await expect(page.getByRole('link', { name: 'Contact Support' })).toBeFocused()
})

test('a notice of a failed refresh does not move the rows', { tag: '@all' }, async ({ page }) => {
  let isAway = false
  const away = () => (isAway ? new HttpResponse(null, { status: 403 }) : undefined)
  await open(page, many(25), http.get('*/api/notifications/:call', away))
  await expect(page.getByText('Deal 25')).toBeAttached()
  await scrollTo(page, 1000)
  const read = await topOf(page, 'Deal 9')
  isAway = true
  await page.clock.runFor(15_000)
  await expect(page.getByText('The messages could not be refreshed')).toBeAttached()
  await expect(page.getByText('The chart could not be refreshed')).toBeAttached()
  expect(await topOf(page, 'Deal 9')).toBeCloseTo(read, 0)
  isAway = false
  await page.clock.runFor(15_000)
  await expect(page.getByText('could not be refreshed')).toHaveCount(0)
  expect(await topOf(page, 'Deal 9')).toBeCloseTo(read, 0)
})

test('eight messages are in sight on a wide screen', async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 })
  await open(page, many(25))
  await expect(page.getByText('Deal 8', { exact: true })).toBeInViewport({ ratio: 1 })
})

test('long words fit at every width', { tag: '@all' }, async ({ page }) => {
  const word = 'Donaudampfschifffahrt'.repeat(8)
  const deal = { name: word, url: 'https://crm.example/1' }
  const more = { deal, from: word, to: word, rule: word, channel: word, reason: word }
  const inState = (state: ActivityItem['state']) => message(state, now, { ...more, state })
  await open(page, (['sent', 'waiting', 'failed', 'skipped'] as const).map(inState))
  for (const width of [320, 640, 1280]) {
    await page.setViewportSize({ width, height: 800 })
    const outside = await page.evaluate(() =>
      [...document.querySelectorAll('main *')].flatMap((element) => {
        const { right, left } = element.getBoundingClientRect()
        return left < 0 || right > document.documentElement.clientWidth ? [element.outerHTML] : []
      }),
    )
    expect(outside, `${width} px`).toEqual([])
  }
})

test('a day of the chart shows its figures below the pointer, with the focus, or while it is chosen', async ({
  page,
}) => {
  await showState(page, stateOf('Activity: messages in every state'))
  const days = page.getByRole('list', { name: 'Messages by day' }).getByRole('link')
  // The text on top in the line above the bars.
  const figures = () =>
    page.evaluate(() => {
      const texts = [...document.querySelectorAll('p:has(+ ol), p + ol span')].map((text) => {
        const { opacity, zIndex } = getComputedStyle(text)
        return {
          text: text.textContent,
          height: opacity === '0' ? -1 : Number.parseInt(zIndex, 10) || 0,
        }
      })
      return texts.toSorted((a, b) => a.height - b.height).at(-1)?.text
    })
  await expect.poll(figures).toBe('Highest day: 34 messages')
  await page.getByRole('heading', { name: 'Last 14 days' }).focus()
  await page.keyboard.press('Tab')
  await expect(days.first()).toBeFocused()
  await expect.poll(figures).toContain(': 12 sent, 0 failed')
  await days.nth(4).hover()
  await expect.poll(figures).toContain(': 31 sent, 3 failed')
  // Those of the focus are still there.
  await page.getByRole('heading', { name: 'Activity' }).hover()
  await expect.poll(figures).toContain(': 12 sent, 0 failed')
  await days.nth(13).click()
  await page.getByRole('heading', { name: 'Activity' }).hover()
  await expect.poll(figures).toContain(': 11 sent, 1 failed')
})

for (const colorScheme of ['light', 'dark'] as const) {
  test(`forced colours show the chart: ${colorScheme}`, { tag: '@all' }, async ({ page }) => {
    await page.emulateMedia({ forcedColors: 'active', colorScheme })
    const failed = message('2', now, { state: 'failed', reason: 'Slack did not answer' })
    await open(page, [message('1', now), failed])
    await expect(page.getByText('1 failed', { exact: true })).toBeVisible()
    const text = await page.evaluate(colourOf, 'CanvasText')
    for (const [part, property] of [
      ['g .fill-accent', 'fill'],
      ['g .stroke-bad', 'stroke'],
    ] as const) {
      await expect(page.locator(`main ${part}`).first()).toHaveCSS(property, text)
    }
    // The current filter differs by more than its text.
    const backgroundOf = (name: string) =>
      page
        .getByRole('link', { name, exact: true })
        .evaluate((link) => getComputedStyle(link).backgroundColor)
    expect(await backgroundOf('All')).not.toBe(await backgroundOf('Sent'))
    // By default, the browser paints the page's colour behind a text, and could hide it.
    const current = page.getByRole('link', { name: 'All', exact: true })
    await expect(current).toHaveCSS('forced-color-adjust', 'none')
  })
}
