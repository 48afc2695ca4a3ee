import { expect, type Page } from '@playwright/test'
import { hostileStrings } from '../hostile-strings.ts'
import { test } from './server.ts'

// tests/components tries all strings without a browser. These three run in a browser, under the real policy.
const texts = hostileStrings.filter((text) =>
  /^(<img src=x onerror=pwned\(\)>|">javascript:|<\/title>.*srcdoc=)/.test(text),
)

declare global {
  interface Window {
    /** What the strings managed to do; must stay empty. */
    happened: string[]
  }
}

/** Records in the page what a string does beyond being text. Returns what the browser sees from outside. */
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

/** The page's elements with their attributes, and its text. */
const contentOf = (page: Page) =>
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

/** Brings the string to the page by redirect, by link and by a broken backend. Returns each page's content. */
async function pagesWith(page: Page, text: string) {
  const value = encodeURIComponent(text)
  const body = JSON.stringify({ error: { code: text, message: text } })
  const read = async (shown: string) => {
    await expect(page.getByText(shown).first()).toBeVisible()
    expect(await page.evaluate(() => window.happened)).toEqual([])
    return contentOf(page)
  }
  const wrong = 'Something went wrong. Please try again later.'
  const pages = []

  // Without the features that load later, each page has the same content at each read.
  await page.route('**/health', (route) =>
    route.fulfill({ json: { status: 'ok', features: ['sessions'] } }),
  )
  // First the real backend, which refuses the state. Then a backend that answers with the string itself.
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

  // The page shows the names of the account and the channel, as plain text.
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

test('a string with HTML and script stays plain text in a real browser', { tag: '@all' }, async ({
  page,
}) => {
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

test('a stand-in’s consent page shows its parameters as plain text', { tag: '@all' }, async ({
  page,
}) => {
  const outside = await watch(page)
  for (const service of ['HubSpot', 'Slack']) {
    await page.goto('/')
    await page.getByRole('button', { name: `Connect ${service}`, exact: true }).click()
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
