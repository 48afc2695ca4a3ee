import puppeteer, { type SupportedBrowser } from 'puppeteer-core'
import type { Browser, Tab } from './tab.ts'

const isRoot = process.getuid?.() === 0

const args = {
  chrome: [
    // Chromium's sandbox does not work for root.
    ...(isRoot ? ['--no-sandbox'] : []),
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-first-run',
  ],
  firefox: [],
} satisfies Record<SupportedBrowser, string[]>

/** Starts Chromium over its own protocol, or Firefox over WebDriver BiDi. @param home is an empty folder. */
export async function launchPuppeteer(
  browser: SupportedBrowser,
  executablePath: string,
  home: string,
): Promise<Browser> {
  const running = await puppeteer.launch({
    browser,
    executablePath,
    args: args[browser],
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
      click: ({ x, y }, times) => page.mouse.click(x, y, { count: times }),
      close: () => context.close(),
    }
  }
  return { newTab, close: () => running.close() }
}
