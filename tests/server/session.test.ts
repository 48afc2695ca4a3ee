import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sessions, users } from '../../server/database/schema.ts'
import { sha256 } from '../../server/people/session.ts'
import { type Harness, openBrowser, openHarness } from './harness.ts'

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
    const answer = await browser.save(['deal-closed'])
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
    await other.save([])
    await cookieSetAt(at(100))
    expect((await rowOf(other.cookie))?.expiresAt).toEqual(at(180))
  })

  test('is the browser’s own: another makes another', async () => {
    const other = openBrowser(harness)
    await other.save(['deal-stage-changed'])
    expect(other.cookie).not.toBe(browser.cookie)
    expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
    expect(await harness.database.select().from(users)).toHaveLength(2)
  })

  test('that has ended makes way for a new one, of a new user', async () => {
    const before = browser.cookie
    harness.clock.now = at(181)
    await browser.save(['deal-stage-changed'])
    expect(browser.cookie).not.toBe(before)
    expect(await browser.rules()).toEqual({ rules: ['deal-stage-changed'] })
  })
})
