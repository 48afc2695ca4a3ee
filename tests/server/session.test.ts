import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connections, deliveries, rules, sessions, users } from '../../server/database/schema.ts'
import { sha256 } from '../../server/people/session.ts'
import { type Harness, openBrowser, openHarness, refusal } from './harness.ts'

const dayMs = 24 * 60 * 60 * 1000
const start = new Date('2026-11-20T12:00:00Z')

let harness: Harness
let browser: ReturnType<typeof openBrowser>
beforeAll(async () => {
  harness = await openHarness()
})
afterAll(() => harness.close())
beforeEach(async () => {
  await harness.database.delete(users)
  harness.clock.now = start
  browser = openBrowser(harness)
})

const at = (days: number, ms = 0) => new Date(start.getTime() + days * dayMs + ms)
const rowOf = async (cookie: string | undefined) => {
  const tokenHash = sha256(cookie?.split('=')[1] ?? '')
  return (
    await harness.database.select().from(sessions).where(eq(sessions.tokenHash, tokenHash))
  )[0]
}
/** What a read at that time sets, if anything. */
async function cookieSetAt(now: Date): Promise<string | undefined> {
  harness.clock.now = now
  return (await browser.call('/api/notifications/rules')).headers.getSetCookie()[0]
}

describe('a session', () => {
  beforeEach(async () => {
    const answer = await browser.send('/api/slack/auth')
    await browser.keep(['deal-closed'])
    expect(answer.headers.getSetCookie()[0]).toContain('Max-Age=15552000')
  })

  test('ends 180 days after it began, to the millisecond', async () => {
    expect((await rowOf(browser.cookie))?.expiresAt).toEqual(at(180))
    harness.clock.now = at(180)
    expect(await browser.rules()).toEqual({ rules: [] })
    harness.clock.now = at(180, -1)
    expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
  })

  test('is left alone for the half of its time', async () => {
    expect(await cookieSetAt(at(90))).toBeUndefined()
    expect((await rowOf(browser.cookie))?.expiresAt).toEqual(at(180))
  })

  test('is made longer after that, the same one and as well guarded', async () => {
    const before = browser.cookie
    const cookie = await cookieSetAt(at(90, 1))
    expect(cookie?.split(';')[0]).toBe(before)
    for (const part of ['Max-Age=15552000', 'Path=/', 'HttpOnly', 'SameSite=Strict']) {
      expect(cookie?.split('; ')).toContain(part)
    }
    expect((await rowOf(browser.cookie))?.expiresAt).toEqual(at(270, 1))
    // And not again the next moment.
    expect(await cookieSetAt(at(90, 2))).toBeUndefined()
  })

  test('is made longer without any other being touched', async () => {
    const other = openBrowser(harness)
    await other.keep([])
    await cookieSetAt(at(100))
    expect((await rowOf(other.cookie))?.expiresAt).toEqual(at(180))
  })

  test('is the browser’s own: another makes another', async () => {
    const other = openBrowser(harness)
    await other.keep(['deal-stage-changed'])
    expect(other.cookie).not.toBe(browser.cookie)
    expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
    expect(await harness.database.select().from(users)).toHaveLength(2)
  })

  test('that has ended makes way for a new one, of a new user', async () => {
    const before = browser.cookie
    harness.clock.now = at(181)
    await browser.send('/api/slack/auth')
    expect(browser.cookie).not.toBe(before)
    expect(await browser.rules()).toEqual({ rules: [] })
  })
})

describe('the person of a session', () => {
  const read = async (one: ReturnType<typeof openBrowser>, path = '/api/notifications/rules') =>
    (await one.call(path)).headers.get('Dealbell-Person')
  const write = (path: string, method: string, person: string | null) =>
    browser.call(path, {
      method,
      headers: { 'Content-Type': 'application/json', 'Dealbell-Person': person ?? '' },
      ...(method === 'POST' && { body: '{"rules":[]}' }),
    })
  const writes = [
    ['POST', '/api/notifications/rules'],
    ['DELETE', '/api/slack/disconnect'],
    ['DELETE', '/api/hubspot/disconnect'],
    ['DELETE', '/api/session?others=true'],
    ['POST', '/api/notifications/test'],
    ['POST', '/api/notifications/activity/1/retry'],
  ] as const

  async function signIn() {
    for (const provider of ['hubspot', 'slack'] as const) await browser.connect(provider)
    await browser.save(['deal-closed'])
  }
  const all = async () =>
    JSON.stringify([
      await harness.database.select().from(connections),
      await harness.database.select().from(rules),
      await harness.database.select().from(deliveries),
    ])

  test('is named by each answer about them, and is the same in each of their browsers', async () => {
    expect(await read(browser)).toBe('nobody')
    const back = await browser.authorize('hubspot')
    const unnamed = await read(browser)
    expect(unnamed).toMatch(/^[0-9a-f]{16}$/)
    const answer = await browser.call(`/api/hubspot/callback?${back}`)
    // A new identity keeps its user.
    expect(answer.headers.get('Dealbell-Person')).toBe(unnamed)
    const paths = [
      '/api/hubspot/status',
      '/api/slack/status',
      '/api/notifications/rules',
      '/api/notifications/activity',
      '/api/notifications/summary',
    ]
    for (const path of paths) expect(await read(browser, path), path).toBe(unnamed)

    const other = openBrowser(harness)
    await other.send('/api/slack/auth')
    const before = await read(other)
    expect(before).not.toBe(unnamed)
    const callback = await other.call(`/api/hubspot/callback?${await other.authorize('hubspot')}`)
    expect(callback.headers.get('Dealbell-Person')).toBe(unnamed)
    const [user] = await harness.database.select().from(users)
    expect(user?.id).not.toContain(unnamed)
  })

  test.each(writes)(
    'differs from the shown person: the server refuses %s %s',
    async (method, path) => {
      await signIn()
      const [own, before] = [await read(browser), await all()]
      for (const person of ['nobody', '0123456789abcdef']) {
        const answer = await write(path, method, person)
        expect(answer.headers.get('Dealbell-Person')).toBe(own)
        expect(await refusal(answer)).toBe('409 another_person')
      }
      expect(await all()).toBe(before)
    },
  )

  test('is the shown person: the server accepts the change', async () => {
    await signIn()
    const own = await read(browser)
    expect((await write('/api/notifications/rules', 'POST', own)).status).toBe(204)
    expect((await write('/api/slack/disconnect', 'DELETE', own)).status).toBe(204)
  })

  test.each(writes)(
    'is nobody after the session has ended: the server refuses %s %s',
    async (method, path) => {
      await signIn()
      const [own, before] = [await read(browser), await all()]
      browser.cookie = 'dealbell=ended'
      const answer = await write(path, method, own)
      expect(answer.headers.get('Dealbell-Person')).toBe('nobody')
      expect(await refusal(answer)).toBe('409 another_person')
      expect(await all()).toBe(before)
    },
  )

  test('can sign out after the session has ended, but not with the name of another person', async () => {
    await signIn()
    const own = await read(browser)
    expect((await write('/api/session', 'DELETE', '0123456789abcdef')).status).toBe(409)
    expect(await read(browser)).toBe(own)
    const answer = await write('/api/session', 'DELETE', own)
    expect(answer.status).toBe(204)
    expect(answer.headers.get('Dealbell-Person')).toBe('nobody')
    expect((await write('/api/session', 'DELETE', own)).status).toBe(204)
  })
})
