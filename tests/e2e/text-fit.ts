import { expect, type Page } from '@playwright/test'

/** Sets the spacing of WCAG 1.4.12. The page's policy does not apply to a constructed style sheet. */
export function raiseTextSpacing() {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(`
    * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }
    p { margin-bottom: 2em !important }`)
  document.adoptedStyleSheets = [sheet]
}

/** Texts that reach beyond their box, and fields that hide a part of their text. */
export const spillingTexts = (page: Page) =>
  page.evaluate(() => {
    const spilling: string[] = []
    const blockAround = (node: Node) => {
      let around = node.parentElement
      while (around !== null && getComputedStyle(around).display === 'inline') {
        around = around.parentElement
      }
      return around
    }
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    const range = document.createRange()
    while (walker.nextNode()) {
      range.selectNodeContents(walker.currentNode)
      const text = range.getBoundingClientRect()
      if (text.width === 0) continue
      // The content of a closed disclosure has a size too.
      if (walker.currentNode.parentElement?.checkVisibility() === false) continue
      const nearest = blockAround(walker.currentNode)
      for (
        let around = walker.currentNode.parentElement;
        around !== null && around !== document.body;
        around = around.parentElement
      ) {
        const { display, position, overflow, borderTopWidth, backgroundColor } =
          getComputedStyle(around)
        if (display === 'inline') continue
        // Apart from the nearest block, only boxes with a visible edge count.
        const isSeen =
          overflow !== 'visible' || borderTopWidth !== '0px' || !backgroundColor.endsWith(', 0)')
        if (!isSeen && around !== nearest) continue
        const box = around.getBoundingClientRect()
        const inside =
          text.left >= box.left - 1 &&
          text.right <= box.right + 1 &&
          text.top >= box.top - 1 &&
          text.bottom <= box.bottom + 1
        if (!inside) spilling.push(`${walker.currentNode.textContent} <${around.tagName}>`)
        // A menu lies over the boxes that it is in.
        if (position === 'absolute') break
      }
    }
    for (const field of document.querySelectorAll('textarea')) {
      if (field.scrollHeight > field.clientHeight) spilling.push(field.placeholder)
    }
    return spilling
  })

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
    expect(await spillingTexts(page), `wide text, ${where}, ${width} px`).toEqual([])
    expect(await sideways(page), `wide text, ${where}, ${width} px`).toBe(0)
  }
}
