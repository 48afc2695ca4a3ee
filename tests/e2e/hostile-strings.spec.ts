import { expect, type Page } from '@playwright/test'
import { hostileStrings } from '../hostile-strings.ts'
import { test } from './server.ts'

// All 200 are tried without a browser (tests/components); these few under the real policy, in a real one.
const texts = hostileStrings.filter((text) =>
  /^(<img src=x onerror=pwned\(\)>|">javascript:|<\/title>.*srcdoc=)/.test(text),
)

declare global {
  interface Window {
    /** Everything that must not have happened. */
    happened: string[]
  }
}

/** Notes in the page whatever a text could do that is more than text. */
async function watch(page: Page): Promise<string[]> {
  const outside: string[] = []
  page.on('dialog', (dialog) => {
    outside.push(`dialog ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('popup', () => outside.push('popup'))
  page.on('request', (request) => {
    const { protocol, hostname } = new URL(request.url())
    if (protocol !== 'http:' || hostname !== 'localhost') outside.push(request.url())
  })
  await page.addInitScript(() => {
    window.happened = []
    Object.assign(window, { pwned: () => window.happened.push('script') })
    document.addEventListener('securitypolicyviolation', (event) => {
      window.happened.push(`${event.violatedDirective} ${event.blockedURI}`)
    })
  })
  return outside
}

/** What the page is made of: its elements with their attributes, and its text. */
const madeOf = (page: Page) =>
  page.evaluate(() => ({
    elements: [...document.querySelectorAll('*')].map((element) =>
      [element.tagName, ...[...element.attributes].map(({ name, value }) => `${name}=${value}`)]
        .join(' ')
        .replaceAll(/_r_\w+_/g, 'id'),
    ),
    text: document.body.textContent,
    title: document.title,
    address: location.pathname + location.search + location.hash,
  }))

/** Opens what a redirect, a link or a broken backend could bring the text to, and reads each page. */
async function pagesWith(page: Page, text: string) {
  const value = encodeURIComponent(text)
  const body = JSON.stringify({ error: { code: text, message: text } })
  const read = async (shown: string) => {
    await expect(page.getByText(shown).first()).toBeVisible()
    expect(await page.evaluate(() => window.happened)).toEqual([])
    return madeOf(page)
  }
  const wrong = 'Something went wrong. Please try again later.'
  const pages = []

  // The real backend refuses the state; then one that answers with the text itself.
  await page.goto(`/hubspot/callback?code=${value}&state=${value}`)
  pages.push(await read('HubSpot connection failed: The server answered with an error (400)'))
  await page.goto(`/slack/callback?error=${value}&error_description=${value}&state=${value}`)
  pages.push(await read('Slack connection failed: Missing Slack code'))
  await page.route('**/api/slack/callback*', (route) =>
    route.fulfill({ status: 500, contentType: 'text/html', body: text }),
  )
  await page.goto(`/slack/callback?code=${value}`)
  pages.push(await read('Slack connection failed: The server answered with an error (500)'))

  await page.goto(`/${value}/callback?code=harmless`)
  pages.push({ ...(await read(wrong)), address: '' })
  await page.goto(`/connect/${value}`)
  pages.push({ ...(await read(wrong)), address: '' })

  // The names of the account and the channel are shown, as the text that they are.
  const name = `«${text}»`
  await page.route('**/api/*/status', (route) =>
    route.fulfill({ json: { connected: true, account: name, channel: name } }),
  )
  await page.route('**/api/notifications/rules', (route) =>
    route.request().method() === 'POST'
      ? route.fulfill({ status: 409, contentType: 'application/json', body })
      : route.fulfill({ json: { rules: [text] } }),
  )
  await page.goto(`/?code=${value}`)
  await page.getByRole('button', { name: 'Save' }).click()
  const dashboard = await read('❌ Failed to save rules, try again.')
  expect(dashboard.text).toContain(`Connected · ${name} · ${name}`)
  pages.push({ ...dashboard, text: dashboard.text?.replaceAll(name, ''), address: '' })

  await page.route('**/api/*/status', (route) =>
    route.fulfill({ json: { connected: false, reason: name, since: text } }),
  )
  await page.goto('/')
  const broken = await read(`Needs to be connected again: ${name}`)
  pages.push({ ...broken, text: broken.text?.replaceAll(name, '') })
  await page.unrouteAll()
  return pages
}

test('a text with HTML and script is nothing but text in a real browser', async ({ page }) => {
  const outside = await watch(page)
  const harmless = await pagesWith(page, 'harmless')
  expect(harmless.map(({ address }) => address)).toEqual([
    '/hubspot/callback',
    '/slack/callback',
    '/slack/callback',
    '',
    '',
    '',
    '/',
  ])
  expect(texts).toHaveLength(3)
  for (const text of texts) {
    expect(await pagesWith(page, text), text).toEqual(harmless)
  }
  expect(outside).toEqual([])
})

test('a stand-in’s consent page repeats what it was asked with as text alone', async ({ page }) => {
  const outside = await watch(page)
  for (const service of ['HubSpot', 'Slack']) {
    await page.goto('/')
    await page.getByRole('button', { name: `Connect ${service}` }).click()
    await expect(page.getByRole('button', { name: 'Allow' })).toBeVisible()
    const asked = new URL(page.url())
    for (const [text, name] of texts.flatMap((text) =>
      ['state', 'client_id'].map((name) => [text, name] as const),
    )) {
      const address = new URL(asked)
      address.searchParams.set(name, text)
      await page.goto(address.href)
      await expect(page.getByText(/stand-in/i).first()).toBeVisible()
      expect(await page.evaluate(() => window.happened), `${name} ${text}`).toEqual([])
      await expect(page.locator('script, img, svg, iframe, style, base')).toHaveCount(0)
    }
  }
  expect(outside).toEqual([])
})
