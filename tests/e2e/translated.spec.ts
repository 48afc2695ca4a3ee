import { expect } from '@playwright/test'
import { connect, sharedTest as test } from './server.ts'

// tests/setup.ts and tests/e2e/accessibility.spec.ts hold in every state what protects the page from a translator: React
// owns no text node.

/** Runs in a page before the app: wraps each text, at the start and whenever the app adds or changes one. */
function translate() {
  // Ends each translated text. Playwright ignores it when it compares.
  const mark = '\u200b'
  function translateText(text: Text) {
    const parent = text.parentElement
    if (parent === null || parent.closest('title, option, script, style, svg')) return
    if (text.data.trim() === '' || text.data.endsWith(mark)) return
    const outer = document.createElement('font')
    outer.appendChild(document.createElement('font')).append(text.data + mark)
    text.replaceWith(outer)
  }
  new MutationObserver((records) => {
    for (const node of records.flatMap(({ target, addedNodes }) => [target, ...addedNodes])) {
      const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT)
      const found = node instanceof Text ? [node] : []
      while (texts.nextNode()) found.push(texts.currentNode as Text)
      for (const text of found) translateText(text)
    }
  }).observe(document, { subtree: true, childList: true, characterData: true })
}

test('while a translator wraps each text, the page still says what is so', async ({ page }) => {
  const errors: string[] = []
  page.on('pageerror', ({ message }) => errors.push(message))
  await page.addInitScript(translate)
  await page.goto('/')
  await connect(page, 'Slack')
  const tick = page.getByLabel('Notify me when a deal stage changes')
  const none = page.getByText('No notification rules defined')
  const refused = page.getByText('❌ Please connect both HubSpot and Slack before saving rules.')
  for (const _twice of [1, 2]) {
    await tick.check()
    await expect(none).toHaveCount(0)
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await expect(refused).toBeVisible()
    await tick.uncheck()
    await expect(refused).toHaveCount(0)
    await expect(none).toBeVisible()
  }
  await expect(page.locator('font').first()).toBeAttached()
  await page.getByRole('button', { name: 'Disconnect Slack' }).click()
  await expect(page.getByRole('button', { name: 'Connect Slack', exact: true })).toBeVisible()
  await expect(page.getByText('Connected', { exact: true })).toHaveCount(0)
  expect(errors).toEqual([])
})
