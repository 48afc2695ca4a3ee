import { eq } from 'drizzle-orm'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { rules, sessions, users } from '../../server/database/schema.ts'
import { forgetDaily, forgetEndedSessions, sha256 } from '../../server/people/session.ts'
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

describe('what is forgotten', () => {
  /** A new browser that began to store something, or did. @returns its session's row. */
  async function make(what: 'rules' | 'connection' | 'nothing', now: Date) {
    harness.clock.now = now
    const one = openBrowser(harness)
    if (what === 'connection') await one.connect('slack')
    else if (what === 'nothing') await one.send('/api/slack/auth')
    else await one.save(['deal-closed'])
    const row = await rowOf(one.cookie)
    if (row === undefined) throw new Error('There is no session.')
    return row
  }
  const sessionsLeft = async () =>
    (await harness.database.select().from(sessions)).map(({ tokenHash }) => tokenHash).toSorted()
  const usersLeft = async () =>
    (await harness.database.select().from(users)).map(({ id }) => id).toSorted()

  test('is what ended, and with it a user who left nothing, and nothing else', async () => {
    const withRules = await make('rules', start)
    const withConnection = await make('connection', start)
    await make('nothing', start)
    const stillHere = await make('rules', at(1))
    // A session ends at its time: what ends now is over, and is kept until the next time.
    const justEnding = await make('rules', at(0, 1))

    await forgetEndedSessions(harness.database, at(180, 1))
    const here = [stillHere, justEnding]
    expect(await sessionsLeft()).toEqual(here.map(({ tokenHash }) => tokenHash).toSorted())
    expect(await usersLeft()).toEqual(
      [withRules, withConnection, ...here].map(({ userId }) => userId).toSorted(),
    )
    expect(await harness.database.select().from(rules)).toHaveLength(3)
  })

  test('is after a day what holds nothing, and not before', async () => {
    const nothing = await make('nothing', start)
    const holding = [await make('rules', start), await make('connection', start)]
    const all = [nothing, ...holding]
    await forgetEndedSessions(harness.database, at(1))
    expect(await sessionsLeft()).toEqual(all.map(({ tokenHash }) => tokenHash).toSorted())
    await forgetEndedSessions(harness.database, at(1, 1))
    expect(await sessionsLeft()).toEqual(holding.map(({ tokenHash }) => tokenHash).toSorted())
    expect(await usersLeft()).toEqual(holding.map(({ userId }) => userId).toSorted())
  })

  test('is not what is in the middle of an authorization, which then ends well', async () => {
    await browser.send('/api/slack/auth')
    harness.clock.now = at(2)
    const params = await browser.authorize('slack')
    await forgetEndedSessions(harness.database, at(2, 10 * 60 * 1000 - 1))
    expect((await browser.call(`/api/slack/callback?${params}`)).status).toBe(204)

    const other = openBrowser(harness)
    await other.authorize('hubspot')
    await forgetEndedSessions(harness.database, at(4))
    expect(await rowOf(other.cookie)).toBeUndefined()
  })

  test('is so every day while the server runs, whatever went wrong the day before', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const { database } = harness
    const log = vi.fn()
    const forgetting = forgetDaily(database, { now: () => harness.clock.now, log })
    await make('nothing', start)
    harness.clock.now = at(2)
    vi.advanceTimersByTime(dayMs - 1)
    expect(await sessionsLeft()).toHaveLength(1)
    const deleting = vi.spyOn(database, 'delete').mockImplementationOnce(() => {
      throw new Error('The database is gone.')
    })
    vi.advanceTimersByTime(1)
    await vi.waitFor(() => expect(log).toHaveBeenCalledTimes(1))
    expect(await sessionsLeft()).toHaveLength(1)
    vi.advanceTimersByTime(dayMs)
    deleting.mockClear()
    // Who closes the database waits for the sessions and the users.
    await forgetting.stop()
    expect(deleting).toHaveBeenCalledTimes(1)
    expect(await sessionsLeft()).toEqual([])

    await make('nothing', start)
    harness.clock.now = at(2)
    vi.advanceTimersByTime(5 * dayMs)
    await forgetting.stop()
    expect(await sessionsLeft()).toHaveLength(1)
  })
})
