import puppeteer, { type SupportedBrowser } from 'puppeteer-core'
import { chromiumArguments } from '../../scripts/programs.ts'
import type { Browser, Tab } from './tab.ts'

/** Starts Chromium over its own protocol, or Firefox over WebDriver BiDi. @param home is an empty folder. */
export async function launchPuppeteer(
  browser: SupportedBrowser,
  executablePath: string,
  home: string,
): Promise<Browser> {
  const running = await puppeteer.launch({
    browser,
    executablePath,
    args: browser === 'chrome' ? chromiumArguments : [],
    // The browsers want a home that they can write to, and must not use the developer's.
    env: { ...process.env, HOME: home },
    defaultViewport: { width: 1280, height: 900 },
  })

  async function newTab(): Promise<Tab> {
    const context = await running.createBrowserContext()
    const page = await context.newPage()
    const errors: string[] = []
    page.on('pageerror', (error) => errors.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error') errors.push(message.text())
    })
    return {
      errors,
      open: async (url) => void (await page.goto(url)),
      reload: async () => void (await page.reload()),
      run: (body) => page.evaluate(`(() => {${body}\n})()`),
      click: ({ x, y }) => page.mouse.click(x, y),
      close: () => context.close(),
    }
  }
  return { newTab, close: () => running.close() }
}
