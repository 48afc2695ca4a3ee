import { AxeBuilder } from '@axe-core/playwright'
import { expect, type Page } from '@playwright/test'

// Level AA of WCAG 2.2, axe's best practices and its experimental rules; none is disabled.
const tags = ['a', 'aa'].flatMap((level) => [`wcag2${level}`, `wcag21${level}`, `wcag22${level}`])

const axe = (page: Page) =>
  new AxeBuilder({ page })
    // Only findings with all their elements, which is faster.
    .options({ resultTypes: ['violations'] })
    .withTags([...tags, 'best-practice', 'experimental'])
    // Legacy mode opens no second page per run. It skips frames; the form in the frame has its own run.
    .setLegacyMode()

/** @param where is in the message of a failure. */
export async function expectNoFinding(page: Page, where: string): Promise<void> {
  await endTransitions(page)
  const { violations, passes, inapplicable } = await axe(page).analyze()
  const findings = violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
  expect(findings, where).toEqual([])
  // By default, axe does not look at it.
  expect([...passes, ...inapplicable].map(({ id }) => id)).toContain('target-size')
  expect(passes.length).toBeGreaterThan(10)
}

/** What is true on each page, whatever it shows. */
export async function expectFine(page: Page): Promise<void> {
  await expectNoFinding(page, page.url())
  const needed = await page.evaluate(() => document.documentElement.scrollWidth)
  const width = page.viewportSize()?.width ?? 0
  expect(needed, `${page.url()} does not scroll sideways`).toBeLessThanOrEqual(width)
}

/** Waits until colours have changed. In the middle of a transition their contrast means nothing. */
const endTransitions = (page: Page) =>
  page.evaluate(() =>
    Promise.all(
      document
        .getAnimations()
        .filter((animation) => animation instanceof CSSTransition)
        .map(({ finished }) => finished.catch(() => {})),
    ),
  )
