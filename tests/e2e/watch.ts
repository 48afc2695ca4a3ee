import type { Page } from '@playwright/test'
import { holdTime } from '../states/states.ts'

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

/** Opens an address. Returns its requests, and the browser's complaints once it has made them. */
export async function visit(page: Page, address: string) {
  const asked: URL[] = []
  const complaints: string[] = []
  // Some seconds after the load event, Chromium reports all unused preloads at once. Add one unused
  // preload: its report tells when this has happened.
  const inVain = '/favicon.svg?in-vain'
  page.on('request', (request) => {
    if (!request.url().endsWith(inVain)) asked.push(new URL(request.url()))
  })
  page.on('console', (message) => {
    if (['warning', 'error'].includes(message.type())) complaints.push(message.text())
  })
  // Keep a failed chat callback on screen. It would lead to the dashboard after 3 s.
  await page.addInitScript(holdTime)
  await page.addInitScript((href) => {
    if (window !== top) return
    addEventListener('DOMContentLoaded', () => {
      const link = document.createElement('link')
      document.head.append(Object.assign(link, { rel: 'preload', as: 'image', href }))
    })
  }, inVain)
  const told = page.waitForEvent('console', (message) => message.text().includes(inVain))
  await page.goto(address)
  await told
  // This answer arrives after all reports of the same batch.
  await page.evaluate(() => {})
  return {
    asked,
    complaints: complaints.filter((text) => !text.includes(inVain)),
  }
}
