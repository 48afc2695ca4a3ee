import { chromium } from '@playwright/test'
import { chromiumArguments } from '../../scripts/programs.ts'
import type { Browser, Tab } from './tab.ts'

export async function launchChromium(executablePath: string): Promise<Browser> {
  const browser = await chromium.launch({ executablePath, args: chromiumArguments })

  async function newTab(): Promise<Tab> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    const page = await context.newPage()
    return {
      open: async (url) => void (await page.goto(url)),
      reload: async () => void (await page.reload()),
      run: (body) => page.evaluate(`(() => {${body}\n})()`),
      click: ({ x, y }) => page.mouse.click(x, y),
      close: () => context.close(),
    }
  }
  return { newTab, close: () => browser.close() }
}
