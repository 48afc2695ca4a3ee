import { expect, type Page } from '@playwright/test'

/** Sets the spacing of WCAG 1.4.12. The page's policy does not apply to a constructed style sheet. */
export function raiseTextSpacing() {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(`
    * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }
    p { margin-bottom: 2em !important }`)
  document.adoptedStyleSheets = [sheet]
}

/** Boxes that hide a part of their text. */
export const hiddenTexts = (page: Page) =>
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
export const sideways = (page: Page) =>
  page.evaluate(() => {
    window.scrollBy({ left: 1000, behavior: 'instant' })
    const moved = window.scrollX
    window.scrollBy({ left: -1000, behavior: 'instant' })
    return moved
  })

/** Fails if a text with the spacing of WCAG 1.4.12 does not fit. */
export async function expectWideTextToFit(page: Page, where: string) {
  await page.evaluate(raiseTextSpacing)
  for (const width of [320, 1280]) {
    await page.setViewportSize({ width, height: 800 })
    expect(await hiddenTexts(page), `wide text, ${where}, ${width} px`).toEqual([])
    expect(await sideways(page), `wide text, ${where}, ${width} px`).toBe(0)
  }
}
