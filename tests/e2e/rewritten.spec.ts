import { expect, type Page } from '@playwright/test'
import { sharedTest as test } from './server.ts'

// What stands between the server and a browser may rewrite the page.

const sentence = /Dealbell is slow to start\./
const heading = { name: 'Deal notifications' }

/** Rewrites the page as a proxy does. Its headers stay. */
const rewrite = (page: Page, change: (html: string) => string) =>
  page.route('/', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, body: change(await response.text()) })
  })

/** Sets the time of the page's animations, in place of waiting. */
const stopAt = (page: Page, ms: number) =>
  page.evaluate((currentTime) => {
    for (const each of document.getAnimations()) {
      each.pause()
      each.currentTime = currentTime
    }
  }, ms)

const changes: Record<string, (html: string) => string> = {
  // code-server #8017, outline #5718, Budibase #15162.
  'Cloudflare’s Rocket Loader': (html) =>
    html
      .replaceAll(
        /<script(?! data-cfasync="false")([^>]*?)(?: type="\w+")?/g,
        '<script type="abc-text/javascript"$1',
      )
      .replace(
        '</body>',
        '<script src="/cdn-cgi/rocket-loader.min.js" data-cf-settings="abc-|49"></script></body>',
      ),
  'a minifier': (html) =>
    html
      .replaceAll(/>\s+</g, '><')
      .replaceAll(/="([\w./-]+)"/g, '=$1')
      .replaceAll(/ crossorigin\b| integrity=\S+|<!--.*?-->/g, ''),
  'a script and a module of its own before ours': (html) =>
    html.replace(
      '<head>',
      '<head><script src="/cdn-cgi/a.js"></script><script type="module" src="/cdn-cgi/b.js"></script>',
    ),
}
for (const [name, change] of Object.entries(changes)) {
  test(`the page starts in spite of ${name}, without a word about it @all`, async ({ page }) => {
    await rewrite(page, change)
    await page.goto('/')
    await expect(page.getByRole('heading', heading)).toBeVisible()
    await expect(page.getByText(sentence)).toHaveCount(0)
    await expect(page.getByText('Something went wrong')).toHaveCount(0)
  })
}

for (const [name, change] of Object.entries<(html: string) => string>({
  'changes the types of all scripts': (html) =>
    html
      .replaceAll(/<script(.*?)>/g, '<script$1 type="abc-text/javascript">')
      .replaceAll('type="module"', ''),
  'removes the scripts': (html) => html.replaceAll(/<script.*?<\/script>/g, ''),
  'changes the script itself': (html) => html.replaceAll(/\/assets\/(index|boot)/g, '/no/$1'),
  'lets only the boot script run': (html) => html.replace('type="module"', 'type="text/plain"'),
})) {
  test(`if the scripts do not run, a sentence says so within ten seconds, and not before eight: a proxy that ${name} @all`, async ({
    page,
  }) => {
    await rewrite(page, change)
    await page.goto('/')
    await expect(page.getByRole('heading', { name: 'Loading…' })).toBeVisible()
    await stopAt(page, 7_900)
    await expect(page.getByText(sentence)).toBeHidden()
    await expect(page.getByRole('paragraph')).toHaveCount(0)
    await stopAt(page, 8_500)
    await expect(page.getByText(sentence)).toBeVisible()
    await expect(page.getByRole('status')).toContainText(sentence)
  })
}
