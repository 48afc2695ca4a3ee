import type { Page } from '@playwright/test'

/** Holds the answer of a call back until the returned function is called. 'fails' is a refusal. */
export async function holdCall(page: Page, path: string, answer: 'fails' | 'passes') {
  const { promise, resolve } = Promise.withResolvers<void>()
  await page.route(path, async (route) => {
    await promise
    await (answer === 'fails' ? route.fulfill({ status: 403 }) : route.continue())
  })
  return resolve
}

/** Records every layout shift from the first frame on. */
export async function watchShifts(page: Page) {
  await page.addInitScript(() => {
    const shifts: string[] = []
    Object.assign(window, { shifts })
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & {
        value: number
        sources: { node: Node | null; previousRect: DOMRect; currentRect: DOMRect }[]
      })[]) {
        const moved = entry.sources.map(
          ({ node, previousRect, currentRect }) =>
            `${node?.nodeName} '${node?.textContent?.slice(0, 30)}' from ${previousRect.top} to ${currentRect.top}`,
        )
        shifts.push(`${entry.value.toFixed(4)}: ${moved.join(', ')}`)
      }
    }).observe({ type: 'layout-shift', buffered: true })
  })
  return () => page.evaluate(() => (window as unknown as { shifts: string[] }).shifts)
}

/** Waits for a frame and the next 50 ms, in which a late shift would come. */
export const frame = (page: Page) =>
  page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 50))),
  )
