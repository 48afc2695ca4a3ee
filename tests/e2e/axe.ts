import { expect, type Page } from '@playwright/test'
import axe from 'axe-core'

// Level AA of WCAG 2.2, axe's best practices and its experimental rules; none is disabled.
const levels = ['a', 'aa'].flatMap((level) => [`wcag2${level}`, `wcag21${level}`, `wcag22${level}`])
const tags = [...levels, 'best-practice', 'experimental']

/** Runs in the page. It skips frames; the form in the frame has its own run. */
async function runAxe(tags: string[]) {
  const { axe } = window as unknown as { axe: typeof import('axe-core') }
  const { violations, passes, inapplicable } = await axe.run({
    runOnly: tags,
    iframes: false,
    // Only findings with all their elements, which is faster.
    resultTypes: ['violations'],
  })
  return {
    findings: violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`)),
    looked: [...passes, ...inapplicable].map(({ id }) => id),
    passes: passes.length,
  }
}

/** @param where is in the message of a failure. */
export async function expectNoFinding(page: Page, where: string): Promise<void> {
  await endTransitions(page)
  if (await page.evaluate(() => !('axe' in window))) await page.evaluate(axe.source)
  const { findings, looked, passes } = await page.evaluate(runAxe, tags)
  expect(findings, where).toEqual([])
  // By default, axe does not look at it.
  expect(looked).toContain('target-size')
  expect(passes).toBeGreaterThan(10)
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
