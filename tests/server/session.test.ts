import { eq } from 'drizzle-orm'
import { Hono } from 'hono'
import { beforeEach, describe, expect, test } from 'vitest'
import { connections, deliveries, rules, sessions } from '../../server/database/schema.ts'
import type { CookieOptions } from '../../server/people/cookies.ts'
import { createSessions } from '../../server/people/session.ts'
import {
  appUrl,
  type Browser,
  browser,
  openBrowser,
  refusal,
  shareHarness,
  signIn,
  start,
  storedIn,
  writeOf,
  writes,
} from './harness.ts'

const dayMs = 24 * 60 * 60 * 1000
const harness = await shareHarness()
const at = (days: number, ms = 0) => new Date(start.getTime() + days * dayMs + ms)
/** When the session of a browser ends, as it is stored. */
const endOf = async (one: Browser) => {
  const found = harness.database.select().from(sessions)
  return (await found.where(eq(sessions.tokenHash, one.tokenHash())))[0]?.expiresAt
}
/** What a read at that time sets, if anything. */
async function cookieSetAt(now: Date): Promise<string | undefined> {
  harness.clock.now = now
  return (await browser.call('/api/notifications/rules')).headers.getSetCookie()[0]
}

describe('a session', () => {
  beforeEach(async () => {
    const answer = await browser.call(`/api/slack/callback?${await browser.authorize('slack')}`)
    expect(answer.headers.getSetCookie()[0]).toMatch(
      /^dealbell-[0-9a-f]{8}=[\w-]{43}; Max-Age=15552000; Path=\/; HttpOnly; SameSite=Strict$/,
    )
    await browser.keep(['deal-closed'])
  })

  test('is bound to its host and to https where the dashboard is on https', async () => {
    const app = harness.appWith({ appUrl: 'https://dealbell.example' })
    const [cookie = ''] = (await app.request('/api/slack/auth')).headers.getSetCookie()
    expect(cookie).toMatch(
      /^__Host-dealbell-[0-9a-f]{8}-[0-9a-f]{8}=new\.[\w-]{43}; .*Path=\/.*; Secure/,
    )
    expect(cookie).not.toMatch(/Domain/)
    // A cookie without the prefix could come from another host of the domain.
    const planted = { Cookie: cookie.replace('__Host-', '').split(';')[0] ?? '' }
    const again = await app.request('/api/slack/auth', { headers: planted })
    expect(again.headers.getSetCookie()[0]?.split(';')[0]).not.toBe(cookie.split(';')[0])
  })

  test('stands in the database only as a hash, which opens nothing', async () => {
    const token = browser.cookie?.split('=')[1] ?? ''
    const rows = JSON.stringify(await harness.database.select().from(sessions))
    expect(rows).toContain(browser.tokenHash())
    expect(rows).not.toContain(token)
    const thief = openBrowser(harness)
    thief.cookie = `dealbell-0123abcd=${browser.tokenHash()}`
    expect(await thief.rules()).toEqual({ rules: [] })
  })

  test('ends 180 days after it began, to the millisecond', async () => {
    expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
    harness.clock.now = at(180)
    expect(await browser.rules()).toEqual({ rules: [] })
  })

  test('is made longer in its second half, the same one and as well guarded, and no other of the same person', async () => {
    const other = openBrowser(harness)
    for (const one of [browser, other]) await one.connect('hubspot')
    expect(await other.userId()).toBe(await browser.userId())
    const before = browser.cookie
    expect(await cookieSetAt(at(90))).toBeUndefined()
    const cookie = await cookieSetAt(at(90, 1))
    expect(cookie).toBe(`${before}; Max-Age=15552000; Path=/; HttpOnly; SameSite=Strict`)
    expect(await endOf(browser)).toEqual(at(270, 1))
    expect(await endOf(other)).toEqual(at(180))
    // And not again the next moment.
    expect(await cookieSetAt(at(90, 2))).toBeUndefined()
  })

  test('ends after a year, however often it is used', async () => {
    let cookie = ''
    for (let days = 0; days < 365; days += 5) {
      harness.clock.now = at(days)
      const answer = await browser.call('/api/notifications/rules')
      expect(await answer.json()).toEqual({ rules: ['deal-closed'] })
      cookie = answer.headers.getSetCookie()[0] ?? cookie
    }
    // It was extended last at 190 days. The browser forgets the cookie when the session ends.
    expect(cookie).toContain(`Max-Age=${(365 - 190) * 24 * 60 * 60};`)
    harness.clock.now = at(365)
    expect(await browser.rules()).toEqual({ rules: [] })
  })
})

test('a browser that becomes a person’s gets a new token; the same person’s stays, so a lost answer signs nobody out', async () => {
  /** A browser that has the present cookie, and no later one. */
  const copy = () => {
    const one = openBrowser(harness)
    one.cookie = browser.cookie
    return one
  }
  const isSignedIn = async (one: Browser) =>
    JSON.stringify(await one.rules()) === '{"rules":["deal-closed"]}'
  await browser.keep(['deal-closed'])
  const planted = copy()
  await browser.connect('hubspot')
  expect(await Promise.all([browser, planted].map(isSignedIn))).toEqual([true, false])
  const withoutAnswer = copy()
  await browser.connect('hubspot')
  expect(await Promise.all([browser, withoutAnswer].map(isSignedIn))).toEqual([true, true])
})

describe('two tabs of a new browser that begin at once', () => {
  const services = [
    ['hubspot', 'slack'],
    ['slack', 'hubspot'],
  ] as const

  /** What both requests without a cookie have begun, in a browser that keeps both answers' cookies. */
  async function beginBoth(first: 'hubspot' | 'slack', second: 'hubspot' | 'slack') {
    const other = openBrowser(harness)
    const ways = [await browser.authorize(first), await other.authorize(second)] as const
    const cookies = [browser.cookie, other.cookie].map((cookie) => cookie ?? '')
    expect(new Set(cookies.map((cookie) => cookie.split('=')[0]))).toHaveLength(2)
    browser.cookie = cookies.join('; ')
    return { ways, cookies }
  }
  /** Comes back from a provider. The browser keeps its other cookies. */
  async function comeBack(service: string, way: URLSearchParams, cookies: readonly string[]) {
    const answer = await browser.call(`/api/${service}/callback?${way}`)
    const set = answer.headers.getSetCookie()[0]?.split(';')[0]
    browser.cookie = [set ?? [], cookies].flat().join('; ')
    return answer.status
  }

  // A stranger may have begun the second one, and planted its cookie.
  test.each(services)(
    'do not both end, %s first and then %s; Connect works again at once',
    async (first, second) => {
      const { ways, cookies } = await beginBoth(first, second)
      expect(await comeBack(first, ways[0], cookies)).toBe(204)
      expect(await comeBack(second, ways[1], [browser.cookie ?? ''])).toBe(400)
      expect(await browser.connected(second)).toEqual({ connected: false })
      await browser.connect(second)
      for (const service of services[0]) {
        expect(await browser.connected(service)).toMatchObject({ connected: true })
      }
    },
  )

  test.each(services)('can each end alone, %s and not %s', async (first, second) => {
    const { ways, cookies } = await beginBoth(second, first)
    expect(await comeBack(first, ways[1], cookies)).toBe(204)
    expect(await browser.connected(first)).toMatchObject({ connected: true })
  })

  test('leave no cookie after a sign-out', async () => {
    const { ways, cookies } = await beginBoth('hubspot', 'slack')
    expect(await comeBack('hubspot', ways[0], cookies)).toBe(204)
    const removed = await browser.call('/api/session', { method: 'DELETE' })
    const names = removed.headers.getSetCookie().map((cookie) => cookie.split('=')[0])
    expect(names).toEqual(expect.arrayContaining(cookies.map((cookie) => cookie.split('=')[0])))
  })
})

describe('cookies of others at this host', () => {
  const isSignedIn = async (one: Browser) =>
    JSON.stringify(await one.rules()) === '{"rules":["deal-closed"]}'
  const tokenOf = ({ cookie = '' }: Browser) => cookie.split('=')[1] ?? ''
  const foreign = 'A'.repeat(43)
  beforeEach(() => browser.keep(['deal-closed']))

  test('never meet those of another installation: another key or another address has another name', async () => {
    const options = { encryptionKey: Buffer.alloc(32, 7), now: () => start }
    const nameOf = async (change: Partial<CookieOptions>) => {
      const made = createSessions(harness.database, { appUrl, ...options, ...change })
      const app = new Hono().get('/', async (c) => c.json(await made.beginIn(c)))
      const [cookie = ''] = (await app.request('/')).headers.getSetCookie()
      return /^(dealbell-[0-9a-f]{8})-[0-9a-f]{8}=/.exec(cookie)?.[1]
    }
    const own = browser.cookie?.split('=')[0]
    expect(await nameOf({})).toBe(own)
    for (const change of [
      { encryptionKey: Buffer.alloc(32, 8) },
      { appUrl: 'http://localhost:3001' },
    ]) {
      expect(await nameOf(change)).toMatch(/^dealbell-[0-9a-f]{8}$/)
      expect(await nameOf(change)).not.toBe(own)
    }
  })

  test.each<[string, (own: string, token: string) => string]>([
    ['of a key that was removed', (_, token) => `dealbell-0123abcd=${token}`],
    ['beside one of another installation', (own) => `dealbell-0123abcd=${foreign}; ${own}`],
    [
      'of a key that was removed beside one of another installation',
      (_, token) => `dealbell-89abcdef=${foreign}; dealbell-0123abcd=${token}`,
    ],
    ['beside a foreign one of the own name', (own) => `${own.split('=')[0]}=${foreign}; ${own}`],
    [
      'beside those of many others',
      (own) =>
        `${Array.from({ length: 60 }, (_, n) => `dealbell-${n + 1e7}=${foreign}`).join('; ')}; ${own}`,
    ],
    [
      'behind sixty that a page had the browser collect',
      (own) =>
        `${Array.from({ length: 60 }, (_, n) => `${own.split('=')[0]}-${n + 1e7}=new.${foreign}`).join('; ')}; ${own}`,
    ],
    [
      'beside one of a browser without a session',
      (own) => `dealbell-0123abcd=new.${foreign}; ${own}`,
    ],
  ])('keep nobody from being signed in: the own one %s', async (_, headerOf) => {
    const headers = { Cookie: headerOf(browser.cookie ?? '', tokenOf(browser)) }
    const answer = await harness.app.request('/api/notifications/rules', { headers })
    expect(await answer.json()).toEqual({ rules: ['deal-closed'] })
  })

  test.each<[string, (own: string, token: string) => string]>([
    ['begun before a key was removed', (_, token) => `dealbell-0123abcd=${token}`],
    ['beside that of another installation', (own) => `dealbell-0123abcd=new.${foreign}; ${own}`],
  ])('do not disturb an authorization %s', async (_, headerOf) => {
    const fresh = openBrowser(harness)
    const params = await fresh.authorize('slack')
    const token = tokenOf(fresh)
    fresh.cookie = headerOf(fresh.cookie ?? '', token)
    expect((await fresh.call(`/api/slack/callback?${params}`)).status).toBe(204)
    expect(await fresh.connected('slack')).toMatchObject({ connected: true })
  })

  test('stay at a sign-out, which removes each name under which the session was found', async () => {
    const token = tokenOf(browser)
    const thief = openBrowser(harness)
    thief.cookie = browser.cookie
    browser.cookie = `dealbell-0123abcd=${foreign}; dealbell-89abcdef=${token}`
    const answer = await browser.call('/api/session', { method: 'DELETE' })
    const own = thief.cookie?.split('=')[0]
    const removed = '; Max-Age=0; Path=/; HttpOnly; SameSite=Strict'
    expect(answer.headers.getSetCookie()).toEqual([
      `${own}=${removed}`,
      `dealbell-89abcdef=${removed}`,
    ])
    expect(await isSignedIn(thief)).toBe(false)
    expect(await harness.database.$count(sessions)).toBe(0)
  })
})

describe('the person of a session', () => {
  const read = async (one: Browser, path = '/api/notifications/rules') =>
    (await one.call(path)).headers.get('Dealbell-Person')
  const write = (path: string, method: string, person: string | null) =>
    browser.call(path, writeOf(method, { 'Dealbell-Person': person ?? '' }))
  const all = () => storedIn(harness.database, connections, rules, deliveries)

  // callback-orders.test.ts compares the names of several persons, each in several browsers.
  test('is named by each answer about them, and not by the id; reading makes nobody a person', async () => {
    for (const path of ['/api/slack/status', '/api/notifications/rules']) {
      expect(await read(browser, path)).toBe('nobody')
    }
    expect(browser.cookie).toBeUndefined()
    // Until the CRM has said who it is, the name says so.
    const chat = await browser.authorize('slack')
    expect(await read(browser)).toBe('nobody')
    const unnamed = await read(browser, `/api/slack/callback?${chat}`)
    expect(unnamed).toMatch(/^nobody-[0-9a-f]{16}$/)
    expect(await read(browser)).toBe(unnamed)
    const back = await browser.authorize('hubspot')
    const named = unnamed?.slice('nobody-'.length)
    expect(await browser.userId()).not.toContain(named)
    // A new identity keeps its user.
    const paths = [
      `/api/hubspot/callback?${back}`,
      '/api/hubspot/status',
      '/api/slack/status',
      '/api/notifications/rules',
      '/api/notifications/activity',
      '/api/notifications/summary',
    ]
    for (const path of paths) expect(await read(browser, path), path).toBe(named)
  })

  test.each(writes.filter(([, path]) => path !== '/api/session'))(
    'differs from the shown person: the server refuses %s %s',
    async (method, path) => {
      await signIn(browser)
      const [own, before] = [await read(browser), await all()]
      for (const [shown, person, cookie] of [
        ['nobody', own, browser.cookie],
        ['0123456789abcdef', own, browser.cookie],
        [own, 'nobody', 'dealbell-0123abcd=ended'],
      ] as const) {
        browser.cookie = cookie
        const answer = await write(path, method, shown)
        expect(answer.headers.get('Dealbell-Person')).toBe(person)
        expect(await refusal(answer)).toBe('409 another_person')
      }
      expect(await all()).toBe(before)
    },
  )

  test('can sign out after the session has ended, but not with the name of another person', async () => {
    await signIn(browser)
    const own = await read(browser)
    expect((await write('/api/session', 'DELETE', '0123456789abcdef')).status).toBe(409)
    expect(await read(browser)).toBe(own)
    const answer = await write('/api/session', 'DELETE', own)
    expect(answer.status).toBe(204)
    expect(answer.headers.get('Dealbell-Person')).toBe('nobody')
    expect((await write('/api/session', 'DELETE', own)).status).toBe(204)
  })
})
