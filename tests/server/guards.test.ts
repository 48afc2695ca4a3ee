import { describe, expect, test, vi } from 'vitest'
import { connections, rules, sessions } from '../../server/database/schema.ts'
import {
  appUrl,
  browser,
  refusal,
  shareHarness,
  signIn,
  storedIn,
  writeOf,
  writes,
} from './harness.ts'

// Which address has which guard. same-site.test.ts says whom each guard refuses, and contract.test.ts who reads answers.

const harness = await shareHarness()

const evil = 'https://evil.example'
const crossSite = { 'Sec-Fetch-Site': 'cross-site' }
const navigation = { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'navigate' }

describe('another site cannot', () => {
  test.each(writes)('%s %s', async (method, path) => {
    await signIn(browser)
    const all = () => storedIn(harness.database, connections, rules, sessions)
    const before = await all()
    for (const headers of [{ Origin: evil }, crossSite, { ...crossSite, Origin: evil }]) {
      const answer = await browser.send(path, writeOf(method, headers))
      expect(await refusal(answer)).toBe('403 cross_site')
    }
    expect(await all()).toBe(before)
  })

  test.each<Record<string, string>>([
    { Origin: evil },
    crossSite,
    // DNS rebinding: the other site's name leads to this server.
    { Origin: evil, 'Sec-Fetch-Site': 'same-origin' },
    navigation,
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
    // cookie would replace the one it has.
    const headers = { ...crossSite, 'Sec-Fetch-Mode': 'navigate' }
    const answer = await harness.app.request('/api/slack/auth', { headers })
    expect(await refusal(answer)).toBe('403 cross_site')
    expect(answer.headers.getSetCookie()).toEqual([])
  })
})

test('a page at any address may read where the dashboard is, and that anonymously', async () => {
  for (const origin of ['http://192.168.1.5:3000', 'https://preview.example']) {
    const answer = await browser.send('/health', { headers: { Origin: origin } })
    expect(answer.headers.get('Access-Control-Allow-Origin')).toBe(origin)
    expect(answer.headers.get('Access-Control-Allow-Credentials')).toBe('true')
    expect(await answer.json()).toMatchObject({ appUrl })
    const status = await browser.send('/api/slack/status', { headers: { Origin: origin } })
    expect(status.headers.get('Access-Control-Allow-Origin')).toBeNull()
  }
})

test.each([
  ['GET', '/api/pipedrive/status', '404 not_found', null],
  ['POST', '/api/..%2f..%2fetc/passwd', '404 not_found', null],
  ['PUT', '/api/notifications/rules', '405 method_not_allowed', 'GET, HEAD, POST'],
  ['GET', '/api/slack/disconnect', '405 method_not_allowed', 'DELETE'],
])('%s %s is answered with %s as JSON', async (method, path, expected, allow) => {
  const answer = await browser.call(path, { method })
  expect(await refusal(answer)).toBe(expected)
  expect(answer.headers.get('Allow')).toBe(allow)
})

test('an error of our own is a 500 without a word of what happened, and logged without its message', async () => {
  const database = harness.failingDatabase('postgres://user:SECRET@host')
  const headers = { Cookie: 'dealbell-0123abcd=anything' }
  const answer = await harness.appWith({ database }).request('/api/hubspot/status', { headers })
  const text = await answer.clone().text()
  expect(await refusal(answer)).toBe('500 internal')
  expect(text).not.toMatch(/SECRET|\.ts|at /)
  expect(harness.logged).toEqual([expect.stringContaining('request failed')])
  expect(harness.logged[0]).not.toContain('SECRET')
})

test('the dashboard hears soon that the database hangs, and a hundred of them ask it one question', async () => {
  const execute = vi.fn(() => new Promise<never>(() => {}))
  const database = new Proxy(harness.database, {
    get: (of, name) => (name === 'execute' ? execute : Reflect.get(of, name)),
  })
  const app = harness.appWith({ database })
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const answers = Promise.all(Array.from({ length: 100 }, () => app.request('/health')))
  await vi.advanceTimersByTimeAsync(3_000)
  vi.useRealTimers()
  expect(new Set((await answers).map(({ status }) => status))).toEqual(new Set([500]))
  expect(execute).toHaveBeenCalledTimes(1)
})
