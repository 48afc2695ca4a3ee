import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sessions } from '../../server/database/schema.ts'
import { sha256 } from '../../server/people/session.ts'
import { appUrl, type Harness, openBrowser, openHarness, refusal } from './harness.ts'

let harness: Harness
let browser: ReturnType<typeof openBrowser>
const start = new Date('2026-11-20T12:00:00Z')
beforeAll(async () => {
  harness = await openHarness()
})
afterAll(() => harness.close())
beforeEach(() => {
  browser = openBrowser(harness)
})
afterEach(() => {
  harness.clock.now = start
})

const evil = 'https://evil.example'

describe('another site cannot', () => {
  const json = { 'Content-Type': 'application/json' }
  const body = JSON.stringify({ rules: [] })

  beforeEach(async () => {
    await browser.connect('slack')
    await browser.keep(['deal-closed'])
  })
  const unchanged = async () => {
    expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
    expect(await browser.connected('slack')).toMatchObject({ connected: true })
  }

  const foreign: Record<string, string>[] = [
    { Origin: evil },
    { Origin: 'null' },
    { Origin: 'http://localhost:3000.evil.example' },
    { Origin: 'https://localhost:3000' },
    { Origin: 'http://localhost:3001' },
    { Origin: evil, 'Sec-Fetch-Site': 'cross-site' },
    // DNS rebinding: the other site's name leads to this server.
    { Origin: evil, 'Sec-Fetch-Site': 'same-origin' },
    { 'Sec-Fetch-Site': 'cross-site' },
    { 'Sec-Fetch-Site': 'same-site' },
    { 'Sec-Fetch-Site': 'none' },
    { Origin: 'http://other.localhost:3000', 'Sec-Fetch-Site': 'same-site' },
  ]

  test.each(foreign)('save rules: %j', async (headers) => {
    const init = { method: 'POST', headers: { ...json, ...headers }, body }
    expect(await refusal(await browser.send('/api/notifications/rules', init))).toBe(
      '403 cross_site',
    )
    await unchanged()
  })

  test.each(foreign)('disconnect: %j', async (headers) => {
    const answer = await browser.send('/api/slack/disconnect', { method: 'DELETE', headers })
    expect(await refusal(answer)).toBe('403 cross_site')
    await unchanged()
  })

  test.each([
    ...foreign,
    { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'navigate' },
    { 'Sec-Fetch-Mode': 'navigate' },
  ])('end an authorization, though the state is right: %j', async (headers) => {
    const params = await browser.authorize('hubspot')
    harness.calls.length = 0
    const answer = await browser.send(`/api/hubspot/callback?${params}`, { headers })
    expect(await refusal(answer)).toBe('403 cross_site')
    expect(harness.calls).toEqual([])
    // The state was not used up.
    expect((await browser.call(`/api/hubspot/callback?${params}`)).status).toBe(204)
  })

  test('take the session from a browser by beginning an authorization', async () => {
    // SameSite=Strict: the browser leaves the cookie out of another site's navigation, so that a new
    // session would be made and would replace the one it has.
    const answer = await harness.app.request('/api/slack/auth', {
      headers: { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate' },
    })
    expect(await refusal(answer)).toBe('403 cross_site')
    expect(answer.headers.getSetCookie()).toEqual([])
  })

  test.each(['/api/hubspot/status', '/health'])('read %s', async (path) => {
    const answer = await browser.send(path, { headers: { Origin: evil } })
    expect(answer.headers.get('Access-Control-Allow-Origin')).toBeNull()
    const preflight = await browser.send('/api/notifications/rules', {
      method: 'OPTIONS',
      headers: { Origin: evil, 'Access-Control-Request-Method': 'POST' },
    })
    for (const name of preflight.headers.keys()) expect(name).not.toMatch(/^access-control/)
  })
})

describe('the dashboard on its own origin may', () => {
  test('call with credentials, by APP_URL’s origin and no other', async () => {
    const answer = await browser.send('/api/hubspot/status', { headers: { Origin: appUrl } })
    expect(answer.headers.get('Access-Control-Allow-Origin')).toBe(appUrl)
    expect(answer.headers.get('Access-Control-Allow-Credentials')).toBe('true')
    expect(answer.headers.get('Vary')).toContain('Origin')
    // Without this, its script cannot read who the session's person is.
    expect(answer.headers.get('Access-Control-Expose-Headers')).toBe('Dealbell-Person')
  })

  test('ask before it writes', async () => {
    const answer = await browser.send('/api/notifications/rules', {
      method: 'OPTIONS',
      headers: {
        Origin: appUrl,
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'content-type,dealbell-person',
      },
    })
    expect(answer.status).toBe(204)
    expect(answer.headers.get('Access-Control-Allow-Methods')).toContain('DELETE')
    expect(answer.headers.get('Access-Control-Allow-Headers')).toBe('Content-Type,Dealbell-Person')
  })

  test('write as a page of the same site', async () => {
    const answer = await browser.send('/api/slack/disconnect', {
      method: 'DELETE',
      headers: { Origin: appUrl, 'Sec-Fetch-Site': 'same-site' },
    })
    expect(answer.status).toBe(204)
  })

  test('write over plain http, where browsers send no Sec-Fetch-Site', async () => {
    const init = { method: 'DELETE', headers: { Origin: appUrl } }
    expect((await browser.send('/api/slack/disconnect', init)).status).toBe(204)
    const params = await browser.authorize('hubspot')
    expect((await browser.send(`/api/hubspot/callback?${params}`)).status).toBe(204)
  })
})

describe('the session', () => {
  test('is a random id that scripts and other sites cannot use', async () => {
    const answer = await browser.send('/api/slack/auth')
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(/^dealbell=[A-Za-z0-9_-]{43};/)
    expect(cookie).toMatch(/; HttpOnly/)
    expect(cookie).toMatch(/; SameSite=Strict/)
    expect(cookie).toMatch(/; Path=\//)
    expect(cookie).not.toMatch(/Secure|Domain/)
  })

  test('is bound to its host and to https where the dashboard is on https', async () => {
    const app = harness.appWith({ appUrl: 'https://dealbell.example' })
    const answer = await app.request('/api/slack/auth')
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(/^__Host-dealbell=[A-Za-z0-9_-]{43};/)
    expect(cookie).toMatch(/; Secure/)
    expect(cookie).toMatch(/; Path=\//)
    expect(cookie).not.toMatch(/Domain/)
    // A cookie without the prefix could come from another host of the domain.
    const planted = { Cookie: cookie.replace('__Host-', '').split(';')[0] ?? '' }
    const again = await app.request('/api/slack/auth', { headers: planted })
    expect(again.headers.getSetCookie()).toHaveLength(1)
  })

  test('stands in the database only as a hash', async () => {
    await browser.send('/api/slack/auth')
    const token = browser.cookie?.split('=')[1] ?? ''
    const rows = JSON.stringify(await harness.database.select().from(sessions))
    expect(rows).toContain(sha256(token))
    expect(rows).not.toContain(token)
    // And the hash opens nothing.
    const thief = openBrowser(harness)
    await browser.keep(['deal-closed'])
    thief.cookie = `dealbell=${sha256(token)}`
    expect(await thief.rules()).toEqual({ rules: [] })
  })

  test('is not made by the calls that a new browser makes at once', async () => {
    const answers = await Promise.all(
      ['/health', '/api/hubspot/status', '/api/slack/status', '/api/notifications/rules'].map(
        (path) => browser.call(path),
      ),
    )
    expect(answers.flatMap((answer) => answer.headers.getSetCookie())).toEqual([])
    expect(answers.map((answer) => answer.status)).toEqual([200, 200, 200, 200])
  })

  test('is one for both providers and the rules', async () => {
    await browser.connect('hubspot')
    await browser.connect('slack')
    const { cookie } = browser
    await browser.save(['deal-closed'])
    expect(browser.cookie).toBe(cookie)
    expect(await browser.connected('hubspot')).toMatchObject({ connected: true })
  })

  test('ends after 180 days, and lives on when it is used', async () => {
    const day = 24 * 60 * 60 * 1000
    await browser.keep(['deal-closed'])
    harness.clock.now = new Date(start.getTime() + 100 * day)
    const answer = await browser.call('/api/notifications/rules')
    expect(answer.headers.getSetCookie()[0]).toContain('Max-Age=15552000')
    harness.clock.now = new Date(start.getTime() + 279 * day)
    expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
    harness.clock.now = new Date(start.getTime() + 279 * day + 180 * day)
    expect(await browser.rules()).toEqual({ rules: [] })
  })

  test('ends after a year, however often it is used', async () => {
    const day = 24 * 60 * 60 * 1000
    await browser.keep(['deal-closed'])
    let cookie = ''
    for (let days = 0; days < 365; days += 5) {
      harness.clock.now = new Date(start.getTime() + days * day)
      const answer = await browser.call('/api/notifications/rules')
      expect(await answer.json()).toEqual({ rules: ['deal-closed'] })
      cookie = answer.headers.getSetCookie()[0] ?? cookie
    }
    // It was extended last at 190 days. The browser forgets the cookie when the session ends.
    expect(cookie).toContain(`Max-Age=${(365 - 190) * 24 * 60 * 60};`)
    harness.clock.now = new Date(start.getTime() + 365 * day)
    expect(await browser.rules()).toEqual({ rules: [] })
  })
})

describe('an address', () => {
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

  test.each(
    [
      '/api',
      '/api/',
      '/api/nonsense',
      '/api/pipedrive/status',
      '/api/hubspot',
      '/api/hubspot/status/more',
      '/api/HUBSPOT/status',
      '/api/..%2f..%2fetc/passwd',
      '/api/notifications',
    ].flatMap((path) => methods.map((method) => [method, path] as const)),
  )('that is unknown answers 404 as JSON: %s %s', async (method, path) => {
    const answer = await browser.call(path, { method })
    expect(await refusal(answer)).toBe('404 not_found')
  })

  test.each([
    ['POST', '/health', 'GET, HEAD'],
    ['POST', '/api/hubspot/status', 'GET, HEAD'],
    ['DELETE', '/api/notifications/rules', 'GET, HEAD, POST'],
    ['PUT', '/api/notifications/rules', 'GET, HEAD, POST'],
    ['GET', '/api/slack/disconnect', 'DELETE'],
    ['POST', '/api/slack/disconnect', 'DELETE'],
    ['POST', '/api/slack/callback', 'GET, HEAD'],
    ['DELETE', '/api/hubspot/auth', 'GET, HEAD'],
  ])('that does not know the method says which it knows: %s %s', async (method, path, allow) => {
    const answer = await browser.call(path, { method })
    expect(await refusal(answer)).toBe('405 method_not_allowed')
    expect(answer.headers.get('Allow')).toBe(allow)
  })
})

describe('an error of our own', () => {
  test('is a 500 without a word of what happened, and logged without its message', async () => {
    const logged: string[] = []
    const secret = 'postgres://user:SECRET@host'
    const app = harness.appWith({
      database: new Proxy(harness.database, {
        get() {
          throw new Error(secret)
        },
      }),
      log: (event, fields) => logged.push(JSON.stringify({ event, ...fields })),
    })
    const answer = await app.request('/api/hubspot/status', {
      headers: { Cookie: 'dealbell=anything' },
    })
    const text = await answer.clone().text()
    expect(await refusal(answer)).toBe('500 internal')
    expect(text).not.toMatch(/SECRET|\.ts|at /)
    expect(logged).toHaveLength(1)
    expect(logged[0]).toContain('request failed')
    expect(logged[0]).not.toContain('SECRET')
    expect(answer.headers.get('X-Content-Type-Options')).toBe('nosniff')
  })
})

test('without its database the backend is not healthy', async () => {
  const database = new Proxy(harness.database, {
    get() {
      throw new Error('The database is gone.')
    },
  })
  const app = harness.appWith({ database })
  expect((await app.request('/health')).status).toBe(500)
  expect(await (await harness.app.request('/health')).json()).toMatchObject({ status: 'ok' })
})
