import { expect, type Page } from '@playwright/test'
import { stateOf, states } from '../states/states.ts'
import { expectNoFinding } from './axe.ts'
import { sharedTest as test } from './server.ts'
import { colourOf, showState } from './show-state.ts'

const looks = [
  { width: 1280, colorScheme: 'light' },
  { width: 320, colorScheme: 'dark' },
] as const

async function expectNoFindingIn(page: Page, where: string) {
  for (const { width, colorScheme } of looks) {
    await page.setViewportSize({ width, height: 800 })
    await page.emulateMedia({ colorScheme })
    await expectNoFinding(page, `${where}, ${colorScheme}, ${width} px`)
  }
}

/** The controls by role and name, as a screen reader lists them. */
async function controls(page: Page): Promise<string[]> {
  const tree = await page.locator('body').ariaSnapshot()
  return [...tree.matchAll(/- ((?:button|link|checkbox|textbox)(?: ".*?")?)(?: \[|:|$)/gm)].map(
    (match) => match[1] ?? '',
  )
}

/** Sets the spacing of WCAG 1.4.12. The page's policy does not apply to a constructed style sheet. */
function raiseTextSpacing() {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(`
    * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }
    p { margin-bottom: 2em !important }`)
  document.adoptedStyleSheets = [sheet]
}

/** Makes the text twice as large (WCAG 1.4.4). */
function doubleText() {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync('html { font-size: 200% }')
  document.adoptedStyleSheets = [sheet]
}

/** Boxes that hide a part of their text. */
const hiddenTexts = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>('body :not(svg, svg *, iframe)')]
      .filter((box) => box.checkVisibility() && getComputedStyle(box).overflow !== 'visible')
      .filter(
        ({ scrollWidth, clientWidth, scrollHeight, clientHeight }) =>
          clientWidth > 1 && (scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1),
      )
      .map(({ outerHTML }) => outerHTML.slice(0, 200)),
  )

/** How far the page scrolls sideways, in pixels. */
const sideways = (page: Page) =>
  page.evaluate(() => {
    window.scrollBy({ left: 1000, behavior: 'instant' })
    const moved = window.scrollX
    window.scrollBy({ left: -1000, behavior: 'instant' })
    return moved
  })

/** Fails if a text does not fit with the spacing of WCAG 1.4.12, or at twice its size. */
async function expectLargeTextToFit(page: Page, where: string) {
  await page.evaluate(raiseTextSpacing)
  for (const width of [320, 1280]) {
    await page.setViewportSize({ width, height: 800 })
    expect(await hiddenTexts(page), `wide text, ${where}, ${width} px`).toEqual([])
    expect(await sideways(page), `wide text, ${where}, ${width} px`).toBe(0)
  }
  await page.evaluate(doubleText)
  for (const width of [320, 412]) {
    await page.setViewportSize({ width, height: 800 })
    expect(await sideways(page), `text at 200 %, ${where}, ${width} px`).toBe(0)
  }
}

// Two tests, one for each worker.
for (const part of [0, 1]) {
  test(`axe finds nothing in any state, and no name occurs twice: part ${part + 1}`, {
    tag: '@all',
  }, async ({ page }) => {
    // Many steps of about a second each.
    test.setTimeout(300_000)
    for (const [number, state] of states.entries()) {
      if (number % 2 !== part) continue
      await test.step(state.name, async () => {
        await page.setViewportSize({ width: 1280, height: 800 })
        await showState(page, state)
        const names = await controls(page)
        expect(names).toEqual([...new Set(names)])
        await expectNoFindingIn(page, state.name)
        await expectLargeTextToFit(page, state.name)
      })
    }
  })
}

/** Presses Tab through the whole page. The focused control is always fully visible (WCAG 2.4.12). */
async function expectEveryStopInSight(page: Page) {
  const stops: string[] = []
  for (let stop = 0; stop < 30; stop += 1) {
    await page.keyboard.press('Tab')
    const { name, isInSight } = await page.evaluate(() => {
      const element = document.activeElement
      if (element === null || element === document.body) return { name: '', isInSight: true }
      const { left, right, top, bottom } = element.getBoundingClientRect()
      const corners = [
        [left + 2, top + 2],
        [right - 2, top + 2],
        [left + 2, bottom - 2],
        [right - 2, bottom - 2],
      ] as const
      return {
        name: element.getAttribute('aria-label') ?? element.textContent ?? '',
        isInSight: corners.every(([x, y]) => {
          const hit = document.elementFromPoint(x, y)
          // At the corner of a rounded button, its parent is hit.
          return hit !== null && (element.contains(hit) || hit.contains(element))
        }),
      }
    })
    if (name === '' && stops.length > 0 && stop > 8) break
    expect(isInSight, `'${name}' is in sight when it has the focus`).toBe(true)
    stops.push(name)
  }
  return stops
}

// The second is a page of 1280 × 1024 pixels at 400 %. That every text fits is looked at in every state above.
for (const [width, height] of [
  [320, 640],
  [320, 256],
] as const) {
  test(`at ${width} × ${height} with wide text, nothing that has the focus is covered`, {
    tag: '@all',
  }, async ({ page }) => {
    await page.setViewportSize({ width, height })
    await showState(page, stateOf('Save refused: a service is not connected'))
    await expect(page.getByText('❌ Please connect both')).toBeInViewport({ ratio: 1 })
    await page.evaluate(raiseTextSpacing)
    const stops = await expectEveryStopInSight(page)
    expect(stops).toContain('Save')
    expect(stops).toContain('Contact Support')
  })
}

test('with forced colours every control has an edge, the focus a ring, and each icon is visible', {
  tag: '@all',
}, async ({ page }) => {
  await page.emulateMedia({ forcedColors: 'active' })
  await showState(page, stateOf('One service connected'))
  const canvas = await page.evaluate(colourOf, 'Canvas')
  for (const button of await page.getByRole('button').all()) {
    await expect(button).not.toHaveCSS('border-top-width', '0px')
    await expect(button).not.toHaveCSS('border-top-color', canvas)
  }
  for (const sign of await page.locator('svg').all()) {
    await expect(sign).not.toHaveCSS('stroke', canvas)
  }
  await page.keyboard.press('Tab')
  for (const target of [
    page.getByRole('button', { name: 'Save' }),
    page.getByRole('link', { name: 'Contact Support' }),
    page.getByLabel('Notify me when a deal stage changes'),
  ]) {
    await target.focus()
    await expect(target).not.toHaveCSS('outline-style', 'none')
    await expect(target).not.toHaveCSS('outline-color', canvas)
  }
  const grey = await page.evaluate(colourOf, 'GrayText')
  await expect(page.getByText('Notify me when an invoice is paid')).toHaveCSS('color', grey)
})

test('nothing moves when the user prefers reduced motion', { tag: '@all' }, async ({ page }) => {
  const running = () => page.evaluate(() => document.getAnimations().length)
  await page.emulateMedia({ reducedMotion: 'no-preference' })
  await showState(page, stateOf('HubSpot callback: working'))
  expect(await running()).toBe(1)
  await page.emulateMedia({ reducedMotion: 'reduce' })
  expect(await running()).toBe(0)
})

/** The controls smaller than `size` CSS pixels that can be used. A link after other words of a sentence may be smaller. */
const smallTargets = (page: Page, size: number) =>
  page.evaluate(
    (size) =>
      [...document.querySelectorAll('a, button, select, input:enabled')].flatMap((control) => {
        const isInSentence = control.previousElementSibling !== null
        if (getComputedStyle(control).display === 'inline' && isInSentence) return []
        const target = control.closest('label') ?? control
        const { width, height } = target.getBoundingClientRect()
        return Math.min(width, height) < size ? [`${target.textContent} ${width} × ${height}`] : []
      }),
    size,
  )

const places = [
  'First visit: nothing connected, no rules',
  'Connect',
  'Service Unavailable',
  'An example of a message',
  'Summary and preview cannot be loaded',
  'Activity: messages in every state',
]

// axe knows the 24 px of a mouse (WCAG 2.5.8).
test.describe('by touch', { tag: '@all' }, () => {
  test.use({ hasTouch: true, isMobile: true, viewport: { width: 390, height: 800 } })

  test('targets are at least 44 px', async ({ page }) => {
    for (const place of places) {
      await showState(page, stateOf(place))
      expect(await smallTargets(page, 44)).toEqual([])
    }
  })
})
