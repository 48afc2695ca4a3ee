import { expect, type Page } from '@playwright/test'
import { hostileStrings } from '../hostile-strings.ts'
import { sharedTest as test } from './server.ts'

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

/** Brings the string to the page by redirect, by link and by a broken backend. It must only ever be text. */
async function showEverywhere(page: Page, text: string) {
  const value = encodeURIComponent(text)
  const visit = async (address: string, shown: string) => {
    await page.goto(address)
    await expect(page.getByText(shown).first()).toBeVisible()
    await expectNothingHappened(page, `${address} with ${text}`)
  }
  const wrong = 'Something went wrong. Please try again later.'

  // First the real backend, which refuses the state. Then a backend that answers with the string itself.
  const query = `state=${value}&error_description=${value}`
  const refused = 'HubSpot connection failed: The server answered with an error (400)'
  await visit(`/hubspot/callback?code=${value}&${query}`, refused)
  await visit(`/slack/callback?error=${value}&${query}`, 'Missing Slack code')
  await page.route('**/api/slack/callback*', (route) =>
    route.fulfill({ status: 500, contentType: 'text/html', body: text }),
  )
  await visit(`/slack/callback?code=${value}`, 'The server answered with an error (500)')
  await visit(`/${value}/callback?code=harmless`, wrong)
  await visit(`/connect/${value}`, wrong)

  // The page shows the names of the account and the channel, as plain text.
  await page.route('**/api/*/status', (route) =>
    route.fulfill({ json: { connected: true, account: text, channel: text } }),
  )
  await page.route('**/api/notifications/rules', (route) =>
    route.request().method() === 'POST'
      ? route.fulfill({ status: 409, json: { error: { code: text, message: text } } })
      : route.fulfill({ json: { rules: [text] } }),
  )
  await visit(`/?code=${value}`, `Connected · ${text} · ${text}`)
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('❌ Failed to save rules, try again.')).toBeVisible()
  await expectNothingHappened(page, text)
  await page.route('**/api/*/status', (route) =>
    route.fulfill({ json: { connected: false, reason: text, since: text } }),
  )
  await visit('/', `Not connected: ${text}`)
  await page.unrouteAll()
}

const expectNothingHappened = async (page: Page, where: string) =>
  expect(await page.evaluate(() => window.happened), where).toEqual([])

test('a string with HTML and script stays plain text in a real browser', { tag: '@all' }, async ({
  page,
}) => {
  const outside = await watch(page)
  expect(texts).toHaveLength(3)
  for (const text of texts) await showEverywhere(page, text)
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
      await expectNothingHappened(page, `${name} ${text}`)
      await expect(page.locator('script, img, svg, iframe, style, base')).toHaveCount(0)
    }
  }
  expect(outside).toEqual([])
})
